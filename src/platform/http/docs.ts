import getAssetsPath from 'swagger-ui-dist/absolute-path.js';
import express, { Router } from 'express';
import type { z } from 'zod';
import { z as zod } from 'zod';
import { requestState } from './request-state.ts';

/** The reference pages. Every file comes from this server: they work where there is no internet. */
export function docsRoutes(options: { specUrl: string; title: string; sockets: SocketDocs }): Router {
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
    response.type('html').send(page(`${options.title}: sockets`, socketPage(options.sockets)));
  });
  router.use('/docs/assets', express.static(getAssetsPath(), { index: false, maxAge: '1h' }));
  return router;
}

/** Namespaces with their events, as the socket page shows them. */
export type SocketDocs = readonly {
  namespace: string;
  intro: string;
  events: readonly { name: string; direction: string; payload: z.ZodType; answer?: z.ZodType }[];
}[];

function socketPage(docs: SocketDocs): string {
  const sections = docs.map(({ namespace, intro, events }) => {
    const rows = events.map(
      ({ name, direction, payload, answer }) =>
        `<h3 id="${escapeHtml(name)}"><code>${escapeHtml(name)}</code> <small>${escapeHtml(direction)}</small></h3>
        <h4>Payload</h4>${schemaBlock(payload)}${answer === undefined ? '' : `<h4>Answer</h4>${schemaBlock(answer)}`}`,
    );
    return `<h2>Namespace <code>${escapeHtml(namespace)}</code></h2><p>${escapeHtml(intro)}</p>${rows.join('\n')}`;
  });
  return `<main><h1>Socket messages</h1>${sections.join('\n')}</main>`;
}

function schemaBlock(schema: z.ZodType): string {
  const { $schema: _dialect, ...json } = zod.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  return `<pre>${escapeHtml(JSON.stringify(json, null, 2))}</pre>`;
}

function page(title: string, body: string): string {
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escapeHtml(title)}</title><link rel="stylesheet" href="/docs/assets/swagger-ui.css">
<link rel="icon" href="/docs/assets/favicon-32x32.png"><style>main{font:15px/1.5 system-ui;max-width:60rem;margin:2rem auto;padding:0 1rem}pre{background:#f4f4f6;padding:.8rem;overflow:auto}</style>
</head><body>${body}</body></html>`;
}

function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
