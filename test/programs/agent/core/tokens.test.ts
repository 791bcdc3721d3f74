import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { Credentials, loadCredentials, saveCredentials } from '../../../../src/agent/core/settings.ts';
import { rotateOldToken, rotateToken, KeptTokens } from '../../../../src/agent/core/tokens.ts';
import { ServerCallError } from '../../../../src/agent/core/server-call.ts';
import { agentCommand } from '../../../support/agent-program.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { startTestAgent, type TestAgent } from '../../../support/agent/test-agent.ts';

const DAY_MS = 24 * 3_600_000;

describe('the agent’s tokens', function () {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  let dataDir: string;
  let agent: TestAgent | undefined;

  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
  });
  after(async () => app.close());
  beforeEach(async () => {
    device = await buildDevice(app, tenant.orgId);
    dataDir = await mkdtemp(path.join(tmpdir(), 'muster-tokens-'));
    await keep({});
  });
  afterEach(async () => {
    await agent?.stop();
    agent = undefined;
    await rm(dataDir, { recursive: true, force: true });
  });

  const keep = (more: Partial<Credentials>) =>
    saveCredentials(dataDir, {
      server: app.url,
      deviceId: device.deviceId,
      orgId: device.orgId,
      siteId: device.siteId,
      token: device.token,
      heartbeatSeconds: 60,
      enrolledAt: new Date().toISOString(),
      ...more,
    });
  const kept = async () => (await loadCredentials(dataDir))!;
  const askServer = async (token: string): Promise<string> =>
    (await app.call('POST', `/agents/${device.deviceId}/token/rotate`, { token })).body.token;
  const isGood = async (token: string) => {
    const { status } = await app.call('POST', `/agents/${device.deviceId}/heartbeat`, {
      token,
      body: { at: new Date().toISOString(), agentVersion: '1' },
    });
    return status === 200;
  };
  async function connect(): Promise<void> {
    agent = await startTestAgent({
      server: app.url,
      dataDir,
      tokens: new KeptTokens(dataDir, await kept()),
    });
  }
  const connected = () =>
    eventually(
      () => agent!.states.some(({ state }) => state === 'connected'),
      (is) => is,
    );

  it('are two after a rotation; the next connection uses the new one and drops the other', async () => {
    await rotateToken(dataDir);
    const { token, nextToken } = await kept();
    expect(token).to.equal(device.token);
    expect(nextToken)
      .to.match(/^magt_/)
      .and.not.equal(token);
    await connect();
    await connected();
    const after = await eventually(kept, (file) => file.nextToken === undefined);
    expect(after.token).to.equal(nextToken);
    expect(Math.abs(Date.parse(after.tokenSince!) - Date.now())).to.be.below(10_000);
    expect([await isGood(device.token), await isGood(after.token)]).to.deep.equal([false, true]);
  });

  it('stay valid when the response to a rotation was lost', async () => {
    await askServer(device.token);
    await connect();
    await connected();
    await rotateToken(dataDir);
    const { nextToken } = await kept();
    expect(await isGood(nextToken!)).to.equal(true);
  });

  it('fall back to the old one when the new one is refused, and drop the new one', async () => {
    await rotateToken(dataDir);
    // A second rotation, whose answer was lost, has made the first one's token worthless.
    await askServer(device.token);
    await connect();
    await connected();
    const after = await eventually(kept, (file) => file.nextToken === undefined);
    expect(after.token).to.equal(device.token);
    expect(agent!.states.filter(({ state }) => state === 'waiting')).to.have.length(1);
  });

  it('keep working when the use of the new one could not be stored', async () => {
    const used = await askServer(device.token);
    expect(await isGood(used)).to.equal(true);
    await keep({ nextToken: used });
    await connect();
    await connected();
    expect((await eventually(kept, (file) => file.nextToken === undefined)).token).to.equal(used);

    await keep({ nextToken: used });
    await rotateToken(dataDir);
    const { token, nextToken } = await kept();
    expect([token, nextToken === used]).to.deep.equal([used, false]);
    expect(await isGood(nextToken!)).to.equal(true);
  });

  it('are both kept and tried again while the server accepts neither', async () => {
    await keep({ token: 'first', nextToken: 'second' });
    await connect();
    await eventually(
      () => agent!.states.filter(({ state }) => state === 'waiting'),
      (waits) => waits.length === 2,
    );
    expect(await kept()).to.include({ token: 'first', nextToken: 'second' });
    const last = agent!.states.at(-1) as { nextTryAt: string; reason: string };
    expect(last.reason).to.contain('UNAUTHENTICATED');
    expect(Date.parse(last.nextTryAt) - Date.now()).to.be.greaterThan(60_000);
    const tokens = new KeptTokens(dataDir, await kept());
    const tried: string[] = [];
    for (let i = 0; i < 4; i++) {
      tried.push(await tokens.current());
      tokens.refused(tried.at(-1)!);
    }
    expect(tried).to.deep.equal(['second', 'first', 'second', 'first']);
  });

  it('are read from the file for each connection, and survive a file that cannot be read', async () => {
    const tokens = new KeptTokens(dataDir, await kept());
    await rotateToken(dataDir);
    const { nextToken } = await kept();
    expect(await tokens.current()).to.equal(nextToken);
    const file = path.join(dataDir, 'credentials.json');
    await rm(file);
    // Nobody reads it, and nobody writes over it.
    await mkdir(file);
    expect(await tokens.current()).to.equal(nextToken);
    await tokens.accepted(nextToken!);
    expect(await tokens.current()).to.equal(nextToken);
  });

  it('stay two when the new one arrives while the old one is being accepted', async () => {
    const tokens = new KeptTokens(dataDir, await kept());
    const token = await tokens.current();
    await rotateToken(dataDir);
    await tokens.accepted(token);
    expect((await kept()).nextToken).to.equal(await tokens.current());
  });

  it('are rotated automatically and once after thirty days', async () => {
    await rotateOldToken(dataDir, Date.now() + 29 * DAY_MS);
    expect((await kept()).nextToken).to.equal(undefined);
    await rotateOldToken(dataDir, Date.now() + 30 * DAY_MS + 1000);
    const { nextToken } = await kept();
    expect(nextToken).to.match(/^magt_/);
    await rotateOldToken(dataDir, Date.now() + 31 * DAY_MS);
    expect((await kept()).nextToken).to.equal(nextToken);

    const rotatedAt = new Date(Date.now() - 2 * DAY_MS).toISOString();
    await keep({ enrolledAt: new Date(0).toISOString(), tokenSince: rotatedAt });
    await rotateOldToken(dataDir);
    expect((await kept()).nextToken).to.equal(undefined);
  });

  it('stay unchanged when the server is unreachable or refuses, with an exit code for each failure', async () => {
    const cases = [
      [{ server: 'http://127.0.0.1:1' }, 3],
      [{ token: 'unknown' }, 4],
      [{ deviceId: 'other' }, 4],
    ] as const;
    for (const [wrong, exitCode] of cases) {
      await keep(wrong);
      const before = await kept();
      const error: unknown = await rotateToken(dataDir).catch((caught: unknown) => caught);
      expect(error).to.be.instanceOf(ServerCallError).and.include({ exitCode });
      expect(await kept()).to.deep.equal(before);
    }
  });

  it('are rotated by a command that prints neither', async () => {
    const rotated = await agentCommand(['rotate-token', '--data-dir', dataDir]);
    expect(rotated.code, rotated.output).to.equal(0);
    const file = await readFile(path.join(dataDir, 'credentials.json'), 'utf8');
    const { token, nextToken } = Credentials.parse(JSON.parse(file));
    expect(await isGood(nextToken!)).to.equal(true);
    expect(rotated.output).not.to.contain(token).and.not.to.contain(nextToken);
    const elsewhere = await agentCommand(['rotate-token', '--data-dir', path.join(dataDir, 'none')]);
    expect([elsewhere.code, elsewhere.output.includes('not enrolled')]).to.deep.equal([2, true]);
  });
});
