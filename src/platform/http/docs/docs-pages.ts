import getAssetsPath from 'swagger-ui-dist/absolute-path.js';
import express, { Router } from 'express';
import { requestState } from '../request-state.ts';
import { escapeHtml, SOCKET_STYLE, socketHtml, type SocketReference } from './socket-reference.ts';

/** The reference pages. This server serves all of their files, so they work without access to the internet. */
export function docsRoutes(options: { specUrl: string; title: string; sockets: SocketReference }): Router {
  const router = Router();
  router.use('/docs', (request, _response, next) => {
    requestState(request).route = '/docs';
    next();
  });
  router.get('/docs', (_request, response) => {
    response
      .type('html')
      .send(
        page(
          options.title,
          `<div id="reference"></div><script src="/docs/assets/swagger-ui-bundle.js"></script><script src="/docs/start.js"></script>`,
        ),
      );
  });
  router.get('/docs/start.js', (_request, response) => {
    const settings = JSON.stringify({
      url: options.specUrl,
      dom_id: '#reference',
      deepLinking: true,
      validatorUrl: null,
    });
    response.type('js').send(`SwaggerUIBundle(${settings});`);
  });
  router.get('/docs/sockets', (_request, response) => {
    response.type('html').send(page(`${options.title}: sockets`, socketHtml(options.sockets)));
  });
  router.use('/docs/assets', express.static(getAssetsPath(), { index: false, maxAge: '1h' }));
  return router;
}

function page(title: string, body: string): string {
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escapeHtml(title)}</title><link rel="stylesheet" href="/docs/assets/swagger-ui.css">
<link rel="icon" href="/docs/assets/favicon-32x32.png"><style>${SOCKET_STYLE}</style>
</head><body>${body}</body></html>`;
}
