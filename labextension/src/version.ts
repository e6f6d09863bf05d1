/** The extension's version: that of `package.json` and of the Python package, which a test compares. */
export const VERSION = '0.1.0';
