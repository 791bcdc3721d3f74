import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { API_INFO } from '../../src/api-info.ts';
import { dashboardTypes } from '../../src/cli/dashboard-types.ts';
import { routesAsData } from '../../src/features/index.ts';
import { openApi } from '../../src/platform/http/open-api.ts';
import { call, createTestApp } from '../support/test-app.ts';
import { allRows as rows } from './row-kinds.ts';

interface Operation {
  responses: Record<string, { content: object }>;
}

/** SHAPES 2: what stands elsewhere than below /api/v1, or there as well. */
const PLACES: Record<string, string[]> = {
  '/health': ['/', '/api/v1'],
  '/health/live': ['/', '/api/v1'],
  '/health/ready': ['/', '/api/v1'],
  '/metrics': ['/'],
  '/docs': ['/'],
  '/docs/sockets': ['/'],
};

describe('the OpenAPI document', () => {
  const document = openApi(routesAsData(), API_INFO);

  it('equals the committed one (npm run docs writes it)', async () => {
    const committed = await readFile(path.join(import.meta.dirname, '../../docs/openapi.json'), 'utf8');
    expect(JSON.parse(committed)).to.deep.equal(JSON.parse(JSON.stringify(document)));
  });

  it('gives the committed types of the dashboard and of the TypeScript client (npm run docs writes them)', async () => {
    const file = path.join(import.meta.dirname, '../../src/dashboard/api/routes.ts');
    expect(await dashboardTypes(document)).to.equal(await readFile(file, 'utf8'));
  });

  it('has every route, with an operation id of its own', () => {
    const operations = Object.values(
      document['paths'] as Record<string, Record<string, { operationId: string }>>,
    ).flatMap((methods) => Object.values(methods).filter((method) => 'operationId' in method));
    // The metrics stand beside the table.
    expect(operations).to.have.length(rows.length + 1);
    expect(new Set(operations.map(({ operationId }) => operationId)).size).to.equal(operations.length);
  });

  it('gives the base of the paths that are not below /api/v1', async () => {
    const paths = document['paths'] as Record<string, { servers?: { url: string }[]; get?: Operation }>;
    const app = await createTestApp();
    try {
      for (const [path, bases] of Object.entries(PLACES)) {
        expect(paths[path]?.servers, path).to.deep.equal(bases.map((url) => ({ url })));
        for (const base of bases) {
          const { status, headers } = await call(`${app.url}${base.replace(/\/$/, '')}${path}`, 'GET');
          expect(status, path).to.equal(200);
          const [media = ''] = (headers.get('content-type') ?? '').split(';');
          expect(paths[path]?.get?.responses['200']?.content, path).to.have.property(media);
        }
      }
    } finally {
      await app.close();
    }
  });

  it('refers only to schemas that it holds', () => {
    const text = JSON.stringify(document);
    const { schemas } = document['components'] as { schemas: Record<string, unknown> };
    for (const [, name = ''] of text.matchAll(/"#\/components\/schemas\/([^"]+)"/g)) {
      expect(schemas).to.have.property(name);
    }
    expect(text).not.to.contain('$defs');
  });
});
