import { expect } from 'chai';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { signInAsPerson } from '../../../src/cli/remote/person-session.ts';
import { eventually } from '../../support/eventually.ts';
import { startCommand } from '../../support/run-muster.ts';

/** A server whose access tokens are over at once, so that each use asks for another. */
describe('the session of a person at the command line', () => {
  let server: Server;
  let asked: { path: string; body: Record<string, unknown>; authorization: string | undefined }[];
  let isRevoked: boolean;

  before(async () => {
    server = createServer((request, response) => {
      void json(request).then((body) => {
        const path = request.url?.replace('/api/v1', '') ?? '';
        const { authorization } = request.headers;
        asked.push({ path, body: body as Record<string, unknown>, authorization });
        const count = asked.filter((one) => one.path === path).length;
        const tokens = { accessToken: `access-${asked.length}`, expiresInSeconds: 1 };
        const refuse = () =>
          response.writeHead(401).end(JSON.stringify({ error: 'No.', code: 'UNAUTHENTICATED' }));
        const answer = (what: object) =>
          response
            .writeHead(200, { 'set-cookie': `svc_refresh=first; Path=/; HttpOnly` })
            .end(JSON.stringify(what));
        if (path === '/auth/login') {
          answer({ mfaRequired: true, tempToken: 'temp', user: null, tokens: null });
        } else if (path === '/auth/mfa/verify' && body !== null && count === 1) refuse();
        else if (path === '/auth/mfa/verify') answer({ mfaRequired: false, tokens });
        else if (path === '/auth/refresh' && isRevoked) refuse();
        else if (path === '/auth/refresh') answer({ tokens, refreshToken: `next-${count}` });
        else answer({ success: true });
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  });
  after(() => server.close());

  it('is renewed with each next token, and ends when the server ends it', async () => {
    asked = [];
    isRevoked = false;
    const { port } = server.address() as AddressInfo;
    const keys: string[] = [];
    const run = startCommand(
      async (io) => {
        const session = await signInAsPerson(io, {
          server: `http://127.0.0.1:${port}`,
          email: 'a@example.com',
        });
        for (let round = 0; round < 2; round++) keys.push((await session.profile()).key);
        isRevoked = true;
        const failed = await session.profile().catch((error: unknown) => error);
        expect(failed).to.include({ exit: 3 });
        await session.end();
        return 0;
      },
      { terminal: { columns: 80, rows: 24 } },
    );
    await eventually(run.err, (text) => text.includes('Password of a@example.com'));
    run.type('secret\r');
    await eventually(run.err, (text) => text.split('Code of').length === 2);
    run.type('000000\r');
    await eventually(run.err, (text) => text.split('Code of').length === 3);
    run.type('111111\r');
    const { code, err } = await run.ended;
    expect(code).to.equal(0);
    expect(err).not.to.contain('secret').and.not.contain('111111');
    expect(new Set(keys)).to.have.property('size', 2);
    const refreshed = asked.filter(({ path }) => path === '/auth/refresh');
    expect(refreshed.map(({ body }) => body)).to.deep.equal([
      { refreshToken: 'first' },
      { refreshToken: 'next-1' },
      { refreshToken: 'next-2' },
    ]);
    expect(asked.at(-1)).to.deep.include({ path: '/auth/logout', authorization: `Bearer ${keys[1]}` });
  });
});
