import { expect } from 'chai';
import { createServer } from 'node:http';
import { createHttpServer, listen } from '../../../src/platform/http/http-server.ts';
import { startFailureText } from '../../../src/start-failure.ts';
import { buildTenant, giveSecondFactor } from '../../support/factories.ts';
import { recordingLog } from '../../support/quiet-log.ts';
import { createTestApp, TEST_ENCRYPTION_KEY } from '../../support/test-app.ts';
import { createTestDatabase } from '../../support/test-postgres.ts';

describe('a start that fails at the address to listen on', () => {
  const failureAt = async (host: string, port = 0) => {
    const server = createHttpServer();
    try {
      await listen(server, { host, port });
    } catch (error) {
      return startFailureText(error);
    } finally {
      server.close();
    }
    return 'no failure';
  };

  it('blames HOST if the name is not known or the address is another machine’s', async () => {
    for (const host of ['no-such-host.invalid', '203.0.113.1']) {
      expect(await failureAt(host), host)
        .to.include('HOST')
        .and.include(host)
        .and.not.include('DATABASE');
    }
  });

  it('blames PORT if that is taken', async () => {
    const other = createServer();
    const url = await listen(other, { host: '127.0.0.1', port: 0 });
    const { port } = new URL(url);
    try {
      expect(await failureAt('127.0.0.1', Number(port))).to.include(`Port ${port} on 127.0.0.1 is taken`);
    } finally {
      other.close();
    }
  });

  it('blames the database for what fails there', () => {
    const error = Object.assign(new Error('getaddrinfo ENOTFOUND db.invalid'), { code: 'ENOTFOUND' });
    expect(startFailureText(error)).to.include('DATABASE_URL');
  });
});

describe('a start with another key than that of the secrets in the database', () => {
  const OTHER = 'a-key-with-which-nothing-was-sealed-so-far';

  it('is refused with what to set, and goes on if the right key is named among the old ones', async () => {
    const database = await createTestDatabase();
    const startWith = async (env: Record<string, string>) => {
      const { log, lines } = recordingLog();
      const app = await createTestApp({ database, env, log });
      return { app, lines };
    };
    const addKey = async ({ app }: Awaited<ReturnType<typeof startWith>>) => {
      const { orgId, admin } = await buildTenant(app);
      const { token } = await giveSecondFactor(app, admin);
      const body = { orgId, name: 'Key' };
      const made = await app.call('POST', '/backup/encryption/keys', { token, body });
      expect(made.status).to.equal(201);
    };
    const right = await startWith({});
    await addKey(right);
    await right.app.close();
    const refused = await startWith({ SECRET_ENCRYPTION_KEY: OTHER }).then(
      () => 'not refused',
      (error: unknown) => startFailureText(error),
    );
    expect(refused).to.include('SECRET_ENCRYPTION_KEYS_OLD').and.not.include(OTHER);
    const rotating = await startWith({
      SECRET_ENCRYPTION_KEY: OTHER,
      SECRET_ENCRYPTION_KEYS_OLD: TEST_ENCRYPTION_KEY,
    });
    expect(rotating.lines.filter(({ msg }) => msg === 'secrets.not_opened')).to.deep.equal([]);
    await rotating.app.close();
    await database.drop();
  });
});
