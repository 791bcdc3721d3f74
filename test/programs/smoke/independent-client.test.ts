import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import readline from 'node:readline';
import { expect } from 'chai';
import { eventually } from '../../support/eventually.ts';
import { buildDevice, buildTenant } from '../../support/factories.ts';
import { createTestApp, type TestApp } from '../../support/test-app.ts';

const PYTHON = '/usr/bin/python3';
const SCRIPT = path.join(import.meta.dirname, 'independent-agent.py');

/** Debian's python3-socketio speaks to the hub from its documentation alone: no code of ours is on its side. */
describe('a Socket.IO client that is not ours', () => {
  let app: TestApp;
  let child: ChildProcess | undefined;

  before(async function () {
    const there = spawnSync(PYTHON, ['-c', 'import socketio, websocket']).status === 0;
    if (!there) this.skip();
    app = await createTestApp({ graceMs: 200 });
  });
  after(async () => {
    child?.kill('SIGKILL');
    await app?.close();
  });

  it('is a full agent and a full dashboard', async () => {
    const tenant = await buildTenant(app);
    const device = await buildDevice(app, tenant.orgId);
    const said: { event: string; answer?: { ok: boolean }; snapshot?: { devices: { status: string }[] } }[] =
      [];
    child = spawn(PYTHON, [SCRIPT, app.url, device.token, tenant.admin.token], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    readline.createInterface({ input: child.stdout! }).on('line', (line) => said.push(JSON.parse(line)));
    const heard = (event: string) =>
      eventually(
        () => said.find((line) => line.event === event),
        (line) => line !== undefined,
      );

    expect((await heard('heartbeat.acked'))!.answer).to.include({ ok: true, nextInMs: 60_000 });
    expect((await heard('nonsense.acked'))!.answer).to.deep.include({ ok: false });
    expect((await heard('snapshot'))!.snapshot!.devices.map(({ status }) => status)).to.deep.equal([
      'online',
    ]);

    const answer = await app.call('GET', `/devices/${device.deviceId}/eventlogs/System/events`, {
      token: tenant.admin.token,
    });
    expect(answer.status).to.equal(200);
    expect(answer.body.data[0]).to.include({ message: 'from python', computer: 'SNAKE' });
    expect((await heard('rows.acked'))!.answer).to.deep.equal({ ok: true });
    expect((await heard('result.acked'))!.answer).to.deep.equal({ ok: true });

    const other = await buildDevice(app, tenant.orgId);
    const entered = await eventually(
      () => said.filter(({ event }) => event === 'delta').map((line) => JSON.stringify(line)),
      (lines) => lines.some((line) => line.includes(other.deviceId)),
    );
    expect(entered.join('\n')).to.contain('"entered"');

    child.stdin!.end();
    const [code] = await once(child, 'exit');
    expect(code).to.equal(0);
  });
});
