import { expect } from 'chai';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

const SCRIPT = { language: 'bash', content: 'echo done', timeoutSeconds: 60 };
const DONE = { exitCode: 0, stdout: 'done\n', stderr: '', truncated: false };

interface Side {
  device: EnrolledDevice;
  agent: FakeDevice;
  order(): Promise<string>;
  read(id: string): Promise<{ status: string; error: unknown; output: unknown; progress: unknown }>;
}

for (const agentWire of ['direct', 'stock'] as const) {
  describe(`an agent that sends invalid or excessive data, ${agentWire}`, () => {
    let app: TestApp;
    let hostile: Awaited<ReturnType<typeof buildTenant>>;
    let honest: Awaited<ReturnType<typeof buildTenant>>;
    let open: FakeDevice[];
    before(async () => {
      app = await sharedTestApp({ AGENT_WIRE: agentWire });
      hostile = await buildTenant(app);
      honest = await buildTenant(app);
    });
    after(async () => app.close());
    beforeEach(() => {
      open = [];
    });
    afterEach(() => {
      for (const agent of open) agent.close();
    });

    /** A connected device of a tenant, which answers the receipt of a command with `receipt`. */
    async function side(tenant: typeof honest, receipt: object | undefined = { ok: true }): Promise<Side> {
      const device = await buildDevice(app, tenant.orgId);
      const agent = await connectDevice(app, device.token, { receipt: () => receipt });
      open.push(agent);
      const { token } = tenant.admin;
      const read = async (id: string) => (await app.call('GET', `/commands/${id}`, { token })).body;
      await eventually(
        () => app.call('GET', `/devices/${device.deviceId}`, { token }),
        ({ body }) => body.capabilities.length > 0,
      );
      return {
        device,
        agent,
        read,
        async order() {
          const { body } = await app.call('POST', `/devices/${device.deviceId}/commands`, {
            token,
            body: { type: 'script.run', payload: SCRIPT },
          });
          return body.id;
        },
      };
    }

    it('cannot stop the commands of another tenant with a receipt that the database refuses', async () => {
      const refusing = await side(hostile, { ok: false, error: { code: 'X', message: 'No\u0000\ud800.' } });
      const other = await side(honest);
      const refused = await refusing.order();
      await refusing.agent.nextCommand();
      const id = await other.order();
      expect(await other.agent.succeed(await other.agent.nextCommand(), DONE)).to.deep.equal({ ok: true });
      expect((await other.read(id)).status).to.equal('succeeded');
      const failed = await eventually(
        () => refusing.read(refused),
        ({ status }) => status === 'failed',
      );
      expect(failed.error).to.deep.equal({ code: 'X', message: 'No\ufffd\ufffd.' });
    });

    it('stays connected after an invalid receipt and can still finish the command', async () => {
      for (const receipt of [[], { ok: 'yes' }, { ok: false }, { ok: false, error: 'X' }]) {
        const { agent, order, read } = await side(hostile, receipt);
        const id = await order();
        const frame = await agent.nextCommand();
        expect(await agent.heartbeat()).to.include({ ok: true });
        expect((await read(id)).status).to.equal('dispatched');
        expect(await agent.succeed(frame, DONE)).to.deep.equal({ ok: true });
        expect((await read(id)).status).to.equal('succeeded');
      }
    });

    it('has its result stored with replacements for characters that the database refuses', async () => {
      const { agent, order, read } = await side(hostile);
      const first = await order();
      await agent.succeed(await agent.nextCommand(), { ...DONE, stdout: 'a\u0000b\udc00c' });
      expect((await read(first)).output).to.deep.equal({ ...DONE, stdout: 'a\ufffdb\ufffdc' });
      const second = await order();
      const frame = await agent.nextCommand();
      await agent.send('command:progress', { id: second, seq: 0, phase: 'p\u0000', message: '\ud800' });
      await eventually(
        () => read(second),
        ({ progress }) => progress !== null,
      );
      expect((await read(second)).progress).to.deep.equal({ phase: 'p\ufffd', message: '\ufffd' });
      await agent.fail(frame, 'C\u0000', 'm\ud800');
      expect((await read(second)).error).to.deep.equal({ code: 'C\ufffd', message: 'm\ufffd' });
    });

    it('cannot suppress the progress or the result of another tenant by naming its command first', async () => {
      const other = await side(honest);
      const intruder = await side(hostile);
      const id = await other.order();
      const frame = await other.agent.nextCommand();
      // In one batch: what is told within a few milliseconds is written together.
      void intruder.agent.send('command:progress', { id, seq: 0, phase: 'stolen' });
      await other.agent.send('command:progress', { id, seq: 0, phase: 'mine' });
      void intruder.agent.send('command:progress', { id, seq: 1, phase: 'stolen' });
      await eventually(
        () => other.read(id),
        ({ progress }) => progress !== null,
      );
      expect((await other.read(id)).progress).to.deep.equal({ phase: 'mine' });
      void intruder.agent.finish(frame, { status: 'failed', error: { code: 'X', message: 'Not mine.' } });
      expect(await other.agent.succeed(frame, DONE)).to.deep.equal({ ok: true });
      expect(await other.read(id)).to.deep.include({ status: 'succeeded', output: DONE });
    });

    it('has excess messages refused and is disconnected if it continues, without effect on others', async () => {
      const { agent } = await side(hostile);
      const other = await side(honest);
      const flood = (count: number) => Promise.all(Array.from({ length: count }, () => agent.heartbeat()));
      const answers = await flood(700);
      const refused = answers.filter(({ ok }) => !ok);
      expect(refused.length).to.be.within(200, 201);
      expect(refused[0]).to.have.nested.property('error.code', 'DEVICE_BUSY');
      expect(refused[0]).to.have.nested.property('error.retryAfterMs').that.is.within(1, 10_000);
      expect(agent.socket.connected).to.equal(true);
      for (let n = 0; n < 2000; n++) agent.socket.emit('heartbeat', {});
      await eventually(
        () => agent.socket.connected,
        (connected) => !connected,
      );
      expect(agent.notices.map(({ reason }) => reason)).to.deep.equal(['protocol_violation']);
      expect(await other.agent.heartbeat()).to.include({ ok: true });
    });

    it('may answer queries as fast as it can', async () => {
      const { agent, device } = await side(hostile);
      const answering = app.call('GET', `/system-tools/devices/${device.deviceId}/eventlogs`, {
        token: hostile.admin.token,
      });
      const frame = await agent.nextCommand();
      const answers = await Promise.all(Array.from({ length: 700 }, (_, seq) => agent.rows(frame, [], seq)));
      expect(answers.every((answer) => (answer as { ok: boolean }).ok)).to.equal(true);
      await agent.succeed(frame, { logs: [] });
      expect((await answering).status).to.equal(200);
    });

    it('has heartbeats accepted whose texts the database cannot store unchanged', async () => {
      const { agent, device } = await side(hostile);
      expect(await agent.heartbeat({ lastUser: 'x\u0000y', osBuild: '\ud800' })).to.include({ ok: true });
      const read = () => app.call('GET', `/devices/${device.deviceId}`, { token: hostile.admin.token });
      await eventually(read, ({ body }) => body.osBuild === '\ufffd');
    });
  });
}
