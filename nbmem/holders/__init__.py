"""Why storages are alive: roots, chains, and what the values a user can name do not need."""
