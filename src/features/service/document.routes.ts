import { z } from 'zod';
import { NoBody } from '../../platform/http/browser-answer.ts';
import {
  REFERENCE_ASSETS,
  referenceAsset,
  referencePage,
  referenceScript,
  socketsPage,
  socketsScript,
} from '../../platform/http/docs/docs-pages.ts';
import { KeptDocument, madeOnce } from '../../platform/http/files/kept-document.ts';
import { type AnyRoute, route } from '../../platform/http/route.ts';
import { SOCKET_REFERENCE } from '../../protocol/index.ts';
import type { ServiceLimits } from './service-limits.ts';

export interface DocumentParts {
  title: string;
  /** The OpenAPI document of the whole table. */
  openApi: () => object;
  serviceLimits: ServiceLimits;
}

/** The reference of the interfaces. Each document is made once and kept, because anyone may ask for it at any time. */
export function documentRoutes({ title, openApi, serviceLimits }: DocumentParts): AnyRoute[] {
  const asset = new Map(REFERENCE_ASSETS.map((name) => [name, madeOnce(() => referenceAsset(name))]));
  const api = madeOnce(() => new KeptDocument('json', JSON.stringify(openApi())));
  const reference = madeOnce(() => referencePage(title));
  const script = madeOnce(() => referenceScript('/api/v1/openapi.json'));
  const sockets = madeOnce(() => socketsPage(title, SOCKET_REFERENCE));
  const search = madeOnce(() => socketsScript());
  const all = {
    method: 'get',
    access: 'public',
    before: serviceLimits.documents,
    errors: ['rate_limited'],
  } as const;
  const page = { ...all, bases: ['/'], response: NoBody, media: ['text/html'] } as const;
  return [
    route({
      ...all,
      path: '/openapi.json',
      summary: 'Read this document',
      response: z.record(z.string(), z.unknown()),
      handler: () => api(),
    }),
    route({
      ...page,
      path: '/docs',
      summary: 'Open the reference of the REST interface',
      handler: () => reference(),
    }),
    route({
      ...page,
      path: '/docs/sockets',
      summary: 'Open the reference of the socket messages',
      handler: () => sockets(),
    }),
    route({
      ...page,
      path: '/docs/start.js',
      summary: 'Load the script that starts the reference',
      media: ['text/javascript'],
      handler: () => script(),
    }),
    route({
      ...page,
      path: '/docs/sockets.js',
      summary: 'Load the search of the reference of the socket messages',
      media: ['text/javascript'],
      handler: () => search(),
    }),
    route({
      ...page,
      path: '/docs/assets/:name',
      summary: 'Load a file of the reference',
      params: z.object({ name: z.enum(REFERENCE_ASSETS) }),
      media: ['text/css', 'text/javascript', 'image/png'],
      handler: async ({ params: { name } }) => asset.get(name)?.() ?? referenceAsset(name),
    }),
  ];
}
