import { LabIcon } from '@jupyterlab/ui-components';

/** A memory chip with a bar in it; it takes the colour of JupyterLab's own icons. */
export const memoryIcon = new LabIcon({
  name: 'nbmem:memory',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 16 16">
  <g class="jp-icon3" fill="#616161">
    <path fill-rule="evenodd" d="M4 3h8a1 1 0 0 1 1 1v8a1 1 0 0 1-1 1H4a1 1 0 0 1-1-1V4a1 1 0 0 1 1-1zm.4 1.4v7.2h7.2V4.4z"/>
    <path d="M5.4 8.2h1.4v2.4H5.4zM7.3 5.4h1.4v5.2H7.3zM9.2 7h1.4v3.6H9.2z"/>
    <path d="M5 1h1.2v2H5zM7.4 1h1.2v2H7.4zM9.8 1H11v2H9.8zM5 13h1.2v2H5zM7.4 13h1.2v2H7.4zM9.8 13H11v2H9.8zM1 5h2v1.2H1zM1 7.4h2v1.2H1zM1 9.8h2V11H1zM13 5h2v1.2h-2zM13 7.4h2v1.2h-2zM13 9.8h2V11h-2z"/>
  </g>
</svg>`
});
