import { readFile } from 'node:fs/promises';
import path from 'node:path';
import getAssetsPath from 'swagger-ui-dist/absolute-path.js';
import { KeptDocument } from '../files/kept-document.ts';
import { REFERENCE_HELP, REFERENCE_STYLE } from './reference-help.ts';
import {
  escapeHtml,
  SOCKET_SEARCH,
  SOCKET_STYLE,
  socketHtml,
  type SocketReference,
} from './socket-reference.ts';

/** The reference pages. This server serves all of their files, so they work without access to the internet. */

export const referencePage = (title: string): KeptDocument =>
  new KeptDocument(
    'html',
    page(
      title,
      `<main id="reference"></main><script src="/docs/assets/swagger-ui-bundle.js"></script><script src="/docs/start.js"></script>`,
      REFERENCE_STYLE,
    ),
  );

export function referenceScript(specUrl: string): KeptDocument {
  const settings = JSON.stringify({
    url: specUrl,
    dom_id: '#reference',
    deepLinking: true,
    validatorUrl: null,
    filter: true,
    // The shapes are shown with the routes that have them; all of them at the end only make the page slow.
    defaultModelsExpandDepth: -1,
  });
  return new KeptDocument(
    'js',
    `${REFERENCE_HELP}SwaggerUIBundle({...${settings}, plugins: [searchesRoutes]});`,
  );
}

export const socketsPage = (title: string, sockets: SocketReference): KeptDocument =>
  new KeptDocument(
    'html',
    page(`${title}: sockets`, `${socketHtml(sockets)}<script src="/docs/sockets.js"></script>`, SOCKET_STYLE),
  );

export const socketsScript = (): KeptDocument => new KeptDocument('js', SOCKET_SEARCH);

/** What the pages load. */
export const REFERENCE_ASSETS = ['swagger-ui.css', 'swagger-ui-bundle.js', 'favicon-32x32.png'] as const;

const ASSET_SECONDS = 3600;

export const referenceAsset = async (name: (typeof REFERENCE_ASSETS)[number]): Promise<KeptDocument> =>
  new KeptDocument(path.extname(name), await readFile(path.join(getAssetsPath(), name)), ASSET_SECONDS);

function page(title: string, body: string, style: string): string {
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escapeHtml(title)}</title><link rel="stylesheet" href="/docs/assets/swagger-ui.css">
<link rel="icon" href="/docs/assets/favicon-32x32.png"><style>${style}</style>
</head><body>${body}</body></html>`;
}
