import { readFile } from 'node:fs/promises';
import path from 'node:path';
import getAssetsPath from 'swagger-ui-dist/absolute-path.js';
import { KeptDocument } from './file-answer.ts';
import {
  escapeHtml,
  SOCKET_SEARCH,
  SOCKET_STYLE,
  socketHtml,
  type SocketReference,
} from './socket-reference.ts';

/**
 * Additions to Swagger UI on the page of the reference: names of its controls for readers of screens, colours that can
 * be read, and a search that looks at paths and summaries. Runs in the browser.
 */
const REFERENCE_HELP = `
const searchesRoutes = { fn: { opsFilter(groups, phrase) {
  const wanted = phrase.trim().toLowerCase();
  return groups
    .map((group, name) => name.toLowerCase().includes(wanted) ? group : group.update('operations', (all) => all.filter((one) =>
      (one.get('method') + ' ' + one.get('path') + ' ' + one.getIn(['operation', 'summary'], '')).toLowerCase().includes(wanted))))
    .filter((group) => group.get('operations').size > 0);
} } };
// For 3.1, Swagger UI prepares the whole document before it shows its first route (three seconds of this one). References
// within the document are the same in 3.0, for which it prepares only what is opened.
const preparesOnlyWhatIsOpened = ({ fn: { resolveSubtree } }) => ({
  fn: { resolveSubtree: (spec, ...rest) => resolveSubtree({ ...spec, openapi: '3.0.4' }, ...rest) },
});
const NAMES = {
  '#servers': 'Address of the interface',
  'input.operation-filter-input': 'Search routes by path or summary',
  'select.content-type': 'Type of the body',
  '.body-param__text': 'Body of the request',
};
function giveNames() {
  for (const [selector, name] of Object.entries(NAMES)) {
    for (const control of document.querySelectorAll(selector)) {
      if (!control.hasAttribute('aria-label')) control.setAttribute('aria-label', name);
    }
  }
  for (const control of document.querySelectorAll('.parameters input, .parameters select, .parameters textarea')) {
    const name = control.closest('tr')?.getAttribute('data-param-name');
    if (name !== null && !control.hasAttribute('aria-label')) control.setAttribute('aria-label', name ?? 'Value');
  }
  // A link within a button: the button opens the same.
  for (const link of document.querySelectorAll('.opblock-summary-control a[href]')) link.removeAttribute('href');
  for (const filter of document.querySelectorAll('input.operation-filter-input')) {
    filter.placeholder = 'Search routes by path or summary';
  }
}
new MutationObserver(giveNames).observe(document.getElementById('reference'), { childList: true, subtree: true });
`;

/** Above 4.5:1 against what is behind. */
const REFERENCE_STYLE = `
.swagger-ui .info .title small{background:#4a5160}.swagger-ui .info .title small.version-stamp{background:#3f6200}
.swagger-ui .info .title small pre,.swagger-ui .info .title small.version-stamp pre{color:#fff}
.swagger-ui a.nostyle,.swagger-ui .info a,.swagger-ui .info .url{color:#1f5fa8}
.swagger-ui .btn.authorize,.swagger-ui .btn.authorize span{color:#1b6b45;border-color:#1b6b45}.swagger-ui .btn.authorize svg{fill:#1b6b45}
.swagger-ui .opblock .opblock-summary-method{text-shadow:none;color:#fff}
.swagger-ui .opblock.opblock-get .opblock-summary-method{background:#1f5fa8}.swagger-ui .opblock.opblock-post .opblock-summary-method{background:#1b6b45}
.swagger-ui .opblock.opblock-put .opblock-summary-method{background:#8a4b00}.swagger-ui .opblock.opblock-patch .opblock-summary-method{background:#0f6b66}
.swagger-ui .opblock.opblock-delete .opblock-summary-method{background:#b3261e}
.swagger-ui .opblock .opblock-summary-description,.swagger-ui .opblock-tag small,.swagger-ui .parameter__type,.swagger-ui .prop-format{color:#3b4151}
.swagger-ui .parameter__name.required span,.swagger-ui .parameter__name.required:after{color:#b3261e}
.swagger-ui .response-control-media-type--accept-controller select{border-color:#1b6b45}.swagger-ui .response-control-media-type__accept-message{color:#1b6b45}
.swagger-ui .opblock-tag-section h3{margin:0}
.swagger-ui .microlight span[style*='211, 99, 99'],.swagger-ui .highlight-code span[style*='211, 99, 99']{color:#ff9d9d!important}
.swagger-ui .filter .operation-filter-input{border-color:#8a929e}
`;

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
    `${REFERENCE_HELP}SwaggerUIBundle({...${settings}, plugins: [searchesRoutes, preparesOnlyWhatIsOpened]});`,
  );
}

export const socketsPage = (title: string, sockets: SocketReference): KeptDocument =>
  new KeptDocument(
    'html',
    page(`${title}: sockets`, `${socketHtml(sockets)}<script src="/docs/sockets.js"></script>`, SOCKET_STYLE),
  );

export const socketsScript = (): KeptDocument => new KeptDocument('js', SOCKET_SEARCH);

/** The files that the pages load. */
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
