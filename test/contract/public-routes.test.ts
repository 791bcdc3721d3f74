import { expect } from 'chai';
import type { AnyRoute } from '../../src/platform/http/route.ts';
import { SERVICE_PATHS } from '../../src/platform/http/docs/service-paths.ts';
import { allRows, nameOf } from './row-kinds.ts';

/**
 * A client that has not signed in can order only so much work: each public route has a limit (security S3). A row that knows
 * its limit beforehand has it in `before`, ahead of everything else; one that counts only some requests, such as wrong
 * passwords, takes it in its handler. Both say `rate_limited` among their errors.
 */

const hasLimit = ({ errors = [] }: AnyRoute) => errors.includes('rate_limited');

/** Known faults, which end with the entry here. */
const EXCEPTIONS: Record<string, string> = {
  'POST /auth/refresh': 'one look-up by the hash of a token',
  'POST /auth/logout': 'one look-up by the hash of a token',
  'POST /auth/invite/preview': 'one look-up by the hash of a token',
  'POST /auth/reset-password':
    'one look-up by the hash of a token; it hashes a password only for a right one',
  'GET /sso/callback': 'the state cookie is checked before the database is asked',
  'GET /sso/saml/metadata': 'a document that is made anew for each request',
  'GET /audit-keys': 'reads all public keys for each request',
};

/** Served beside the route table, without a limit: a known fault as well (S3). */
const BESIDE_THE_TABLE: Record<string, string> = {
  '/health': 'a constant, and two numbers',
  '/health/live': 'a constant',
  '/health/ready': 'asks the database and Redis whether they are there',
  '/openapi.json': 'S3: made anew for each request',
  '/docs': 'a page that is a constant',
  '/docs/sockets': 'S3: made anew for each request',
};

describe('a public route', () => {
  const open = allRows.filter(({ access }) => access === 'public');

  it('has a limit, but for the known exceptions', () => {
    expect(open.length).to.be.greaterThan(20);
    expect(open.filter((row) => !hasLimit(row)).map(nameOf)).to.have.members(Object.keys(EXCEPTIONS));
  });

  it('is a row of the table, but for the known exceptions', () => {
    const beside = SERVICE_PATHS.filter(({ access }) => access === 'public').map(({ path }) => path);
    expect(beside).to.have.members(Object.keys(BESIDE_THE_TABLE));
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
