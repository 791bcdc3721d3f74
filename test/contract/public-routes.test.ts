import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import type { AnyRoute } from '../../src/platform/http/route.ts';
import { allRows, nameOf } from './row-kinds.ts';

/**
 * A client that has not signed in can order only so much work: each public route has a limit (security S3). A row that knows
 * its limit beforehand has it in `before`, ahead of everything else; one that counts only some requests, such as wrong
 * passwords, takes it in its handler. Both say `rate_limited` among their errors.
 */

const hasLimit = ({ errors = [] }: AnyRoute) => errors.includes('rate_limited');

const MOUNTS = /\b(app|router)\.(get|post|put|patch|delete|all)\(|express\.static\(/;

describe('a public route', () => {
  const open = allRows.filter(({ access }) => access === 'public');

  it('has a limit', () => {
    expect(open.length).to.be.greaterThan(30);
    expect(open.filter((row) => !hasLimit(row)).map(nameOf)).to.deep.equal([]);
  });

  it('is a row of the table, even if it is health or a document', () => {
    expect(open.map(nameOf)).to.include.members([
      'GET /health',
      'GET /health/live',
      'GET /health/ready',
      'GET /openapi.json',
      'GET /docs',
      'GET /docs/sockets',
      'GET /docs/start.js',
      'GET /docs/assets/:name',
    ]);
  });

  it('is mounted by nothing but the table', async () => {
    const mounting: string[] = [];
    const files = (await readdir('src', { recursive: true })).map((file) => file.replaceAll(path.sep, '/'));
    for (const file of files.filter((name) => /^(server|features|platform|hub)\/.*\.ts$/.test(name))) {
      const text = await readFile(`src/${file}`, 'utf8');
      if (MOUNTS.test(text)) {
        mounting.push(file);
      }
    }
    // Metrics are for this machine or a token, the self-check for a signature.
    expect(mounting).to.deep.equal(['platform/http/operations.ts']);
  });

  it('says in its errors that it has the limit which is ahead of everything else', () => {
    const silent = open.filter((row) => row.before !== undefined && !hasLimit(row));
    expect(silent.map(nameOf)).to.deep.equal([]);
  });

  it('opens its transactions itself, and so makes no row of the trail or stored answer by the table', () => {
    for (const row of open) {
      expect(row, nameOf(row)).to.include({ transaction: false });
      expect([row.audit, row.idempotent, row.cost], nameOf(row)).to.deep.equal([
        undefined,
        undefined,
        undefined,
      ]);
    }
  });
});
