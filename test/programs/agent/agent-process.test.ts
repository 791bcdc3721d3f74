import { readFile, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { saveCredentials } from '../../../src/agent/core/settings.ts';
import { openDeviceFolder } from '../../../src/agent/core/remove-data.ts';
import { processMark } from '../../../src/agent/os/process-group.ts';
import type { CommandOutput } from '../../../src/protocol/index.ts';
import { startAgent, type AgentProgram } from '../../support/agent-program.ts';
import { eventually } from '../../support/eventually.ts';
import { startScriptedHub, type ScriptedHub } from '../../support/scripted-hub.ts';
import { temporaryFolder } from '../../support/agent/test-agent.ts';

/** The real agent as a process, killed where it hurts; what it did is in a file of effects. */
describe('the agent program and durable commands', function () {
  let hub: ScriptedHub;
  let temporary: Awaited<ReturnType<typeof temporaryFolder>>;
  let effects: string;
  let program: AgentProgram | undefined;

  beforeEach(async () => {
    hub = await startScriptedHub();
    temporary = await temporaryFolder();
    effects = path.join(temporary.folder, 'effects');
    await enrolledAs('d');
  });
  afterEach(async () => {
    await kill();
    await hub.close();
    await temporary.remove();
  });

  const enrolledAs = (deviceId: string) =>
    saveCredentials(temporary.folder, {
      server: hub.url,
      deviceId,
      orgId: 'o',
      siteId: 's',
      token: 't',
      heartbeatSeconds: 60,
      enrolledAt: new Date().toISOString(),
    });
  async function start(through: string[] = []): Promise<void> {
    const connections = hub.sockets.length;
    program = startAgent(['run', '--json', '--data-dir', temporary.folder], {}, through);
    await eventually(
      () => hub.sockets.length,
      (count) => count > connections,
    );
  }
  async function kill(): Promise<void> {
    program?.child.kill('SIGKILL');
    await program?.ended;
    program = undefined;
  }
  const script = (content: string) => ({
    language: 'bash',
    content,
    parameters: { effects },
    timeoutSeconds: 30,
  });
  const effect = (name: string) => `echo ${name} >> "$PARAM_effects"`;
  const effectsAre = async (names: string[]) =>
    eventually(
      async () => (await readFile(effects, 'utf8').catch(() => '')).trim().split('\n').filter(Boolean),
      (lines) => lines.length >= names.length,
    ).then((lines) => expect(lines).to.have.members(names));
  const resultOf = (id: string) =>
    eventually(
      () => hub.results.find((result) => result.id === id),
      (found) => found !== undefined,
    ).then((result) => result!);

  const runningOf = async (pids: number[]) => {
    const marks = await Promise.all(pids.map(async (pid) => processMark(pid)));
    return pids.filter((_pid, index) => marks[index] !== '');
  };

  it('lists its capabilities', async () => {
    await start();
    const { capabilities } = hub.sockets[0]!.handshake.auth as { capabilities: string[] };
    expect(capabilities).to.include.members([
      'eventlogs.query',
      'script.run',
      'agent.set-auto-update',
      'agent.refresh-inventory',
      'agent.reboot',
    ]);
    const result = await resultOf(await hub.command('script.run', script('echo hello')));
    expect((result.output as CommandOutput<'script.run'>).stdout).to.equal('hello\n');
    await hub.command('agent.set-auto-update', { enabled: false });
    await eventually(
      () => hub.lastHeartbeat?.autoUpdate,
      (is) => is === false,
    );
    const own = await openDeviceFolder(temporary.folder, { server: hub.url, deviceId: 'd' });
    expect((await stat(path.join(own, 'commands.journal'))).mode & 0o777).to.equal(0o600);
  });

  it('killed between the effect and the result, does not repeat the effect', async () => {
    await start();
    await hub.command('script.run', script(`${effect('once')}; sleep 2`), { id: 'a' });
    await effectsAre(['once']);
    await hub.command('script.run', script(effect('other')), { id: 'b' });
    await resultOf('b');
    await effectsAre(['once', 'other']);
    await kill();
    await start();
    const result = await resultOf('a');
    expect([result.status, result.error!.code]).to.deep.equal(['failed', 'INTERRUPTED']);
    await hub.command('script.run', script(effect('twice')), { id: 'a' });
    await hub.command('script.run', script(effect('twice')), { id: 'b' });
    await hub.command('script.run', script(effect('last')), { id: 'c' });
    await resultOf('c');
    await effectsAre(['once', 'other', 'last']);
  });

  it('killed while scripts run, ends them at the next start before it reports them as interrupted', async () => {
    const mark = path.join(temporary.folder, 'pids');
    await start();
    const deaf = `trap '' TERM; echo $$ >> "${mark}"; ( trap '' TERM; sleep 300 ) & echo $! >> "${mark}"; wait`;
    await hub.command('script.run', script(deaf), { id: 'a' });
    await hub.command('script.run', script(`echo $$ >> "${mark}"; sleep 300`), { id: 'b' });
    const pids = await eventually(
      async () =>
        (await readFile(mark, 'utf8').catch(() => '')).trim().split('\n').filter(Boolean).map(Number),
      (found) => found.length === 3,
    );
    await kill();
    expect(await runningOf(pids), 'they run on without the agent').to.deep.equal(pids);
    await start();
    expect((await resultOf('a')).error!.code).to.equal('INTERRUPTED');
    expect(await runningOf(pids)).to.deep.equal([]);
    expect((await resultOf('b')).error!.code).to.equal('INTERRUPTED');
  });

  it('lets no second agent run in its folder, and none is locked out by a killed one', async () => {
    const many = Array.from({ length: 3 }, () =>
      startAgent(['run', '--json', '--data-dir', temporary.folder]),
    );
    try {
      const refused = await eventually(
        () => many.filter(({ child }) => child.exitCode !== null),
        (ended) => ended.length === 2,
      );
      const [winner] = many.filter((one) => !refused.includes(one));
      for (const one of refused) {
        expect(one.output()).to.contain(`already running (process ${winner!.child.pid})`);
        expect(one.child.exitCode).to.equal(1);
      }
      winner!.child.kill('SIGKILL');
      await winner!.ended;
    } finally {
      for (const { child } of many) child.kill('SIGKILL');
    }
    await start();
    await resultOf(await hub.command('script.run', script('true')));
  });

  it('enrolled as another device while it runs, becomes that device with its own journal', async () => {
    await start();
    await hub.command('script.run', script(`${effect('old')}; sleep 300`), { id: 'old' });
    await effectsAre(['old']);
    const connections = hub.sockets.length;
    await enrolledAs('another');
    await eventually(
      () => hub.sockets.length,
      (count) => count > connections,
    );
    expect(hub.sockets[0]!.connected).to.equal(false);
    await resultOf(await hub.command('script.run', script(effect('new')), { id: 'new' }));
    expect(hub.results.map(({ id }) => id)).to.deep.equal(['new']);
    expect(program!.output()).to.contain('enrolled as another device');
    // What the first device had accepted is told when the machine is that device again.
    await enrolledAs('d');
    expect((await resultOf('old')).error!.code).to.equal('INTERRUPTED');
  });

  it('killed between the result and its acknowledgement, sends it again without repeating the effect', async () => {
    await start();
    hub.forgetAcks = 1;
    await hub.command('script.run', script(`${effect('once')}; echo told`), { id: 'a' });
    await resultOf('a');
    await kill();
    await start();
    await eventually(
      () => hub.results,
      (list) => list.length === 2,
    );
    expect(hub.results[1]).to.deep.equal(hub.results[0]);
    expect(hub.results[1]!.output).to.have.property('stdout', 'told\n');
    await effectsAre(['once']);
  });

  it('killed while commands wait, starts them in order after the restart', async () => {
    await start();
    for (const id of ['a', 'b']) {
      await hub.command('script.run', script(`${effect('held')}; sleep 20`), { id });
    }
    // Each of them ends when the test has seen what it wants to see.
    const go = path.join(temporary.folder, 'go');
    for (const id of ['c', 'd', 'e']) {
      const content = `${effect(id)}; until [ -e "${go}" ]; do sleep 0.05; done`;
      expect(await hub.receipt('script.run', script(content), { id })).to.deep.equal({ ok: true });
    }
    await effectsAre(['held', 'held']);
    await kill();
    await start();
    for (const id of ['a', 'b']) expect((await resultOf(id)).error!.code).to.equal('INTERRUPTED');
    await effectsAre(['held', 'held', 'c', 'd']);
    await writeFile(go, '');
    for (const id of ['c', 'd', 'e']) expect((await resultOf(id)).status).to.equal('succeeded');
    await effectsAre(['held', 'held', 'c', 'd', 'e']);
  });

  it('killed at any moment, many times, executes each command at most once and ends all it has accepted', async function () {
    this.timeout(120_000);
    const accepted: string[] = [];
    for (let round = 0; round < 5; round++) {
      await start();
      for (let index = 0; index < 6; index++) {
        const id = `r${round}-${index}`;
        const receipt = await hub.receipt('script.run', script(`${effect(id)}; sleep 0.05`), { id });
        if (receipt.ok) accepted.push(id);
      }
      await new Promise((resolve) => setTimeout(resolve, round * 60));
      await kill();
    }
    await start();
    for (const id of accepted) await resultOf(id);
    const done = (await readFile(effects, 'utf8')).trim().split('\n');
    expect(done, 'none twice').to.deep.equal([...new Set(done)]);
    for (const id of accepted) {
      const ends = new Set(hub.results.filter((result) => result.id === id).map(({ status }) => status));
      expect([...ends], id).to.have.length(1);
      if (ends.has('succeeded')) expect(done).to.include(id);
    }
  });

  it('does not execute as one device what it has accepted as another', async () => {
    await start();
    for (const id of ['a', 'b', 'c']) {
      await hub.command('script.run', script(`${effect(id)}; sleep 5`), { id });
    }
    await effectsAre(['a', 'b']);
    await kill();
    await enrolledAs('another');
    await start();
    await resultOf(await hub.command('script.run', script(effect('own')), { id: 'own' }));
    expect(hub.results.map(({ id }) => id)).to.deep.equal(['own']);
    await effectsAre(['a', 'b', 'own']);
  });

  it('refuses commands while its disk is full, runs none of them, and accepts them when there is space', async () => {
    // A limit on the size of files is as good as a full disk: the write is cut off in the middle.
    const limited = path.join(temporary.folder, 'limited.sh');
    await writeFile(limited, `trap '' XFSZ; ulimit -f 900; exec "$@"`);
    await start(['bash', limited]);
    const large = `# ${'x'.repeat(190_000)}\n`;
    const receipts = [];
    for (let index = 0; index < 6; index++) {
      receipts.push(
        await hub.receipt('script.run', script(`${large}${effect(`l${index}`)}; sleep 3`), {
          id: `l${index}`,
        }),
      );
    }
    const refused = receipts.filter((receipt) => !receipt.ok);
    expect(refused.length).to.be.within(1, 5);
    expect(refused[0]).to.have.nested.property('error.code', 'STORE_UNAVAILABLE');
    expect(await hub.receipt('script.run', script(effect('small')), { id: 'small' })).to.deep.equal({
      ok: true,
    });
    await resultOf('small');
    const done = (await readFile(effects, 'utf8')).trim().split('\n');
    expect(done).to.have.members([
      ...receipts.flatMap((receipt, index) => (receipt.ok ? [`l${index}`] : [])),
      'small',
    ]);
    // Nor by the next start, which finds nothing of what was cut off.
    await kill();
    await start();
    await resultOf(await hub.command('script.run', script('true')));
    expect((await readFile(effects, 'utf8')).trim().split('\n')).to.have.length(done.length);
    expect(program!.output()).not.to.contain('agent.warning');
  });
});
