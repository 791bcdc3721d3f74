import { expect } from 'chai';
import { HyperV } from '../../../../../src/agent/capabilities/hypervisors/hyperv.ts';
import { powerShell } from '../../../../../src/agent/capabilities/hypervisors/hyperv-scripts.ts';
import { machineQueries } from '../../../../../src/agent/capabilities/hypervisors/handlers.ts';
import {
  findHypervisors,
  Hypervisors,
} from '../../../../../src/agent/capabilities/hypervisors/hypervisors.ts';
import { COMMANDS } from '../../../../../src/protocol/index.ts';
import { fakePrograms, type FakePrograms } from '../../support/fake-programs.ts';
import { type FakeMachine, fakePowerShell, HOSTILE_NAMES, idOf } from './hyperv-support.ts';

describe('agent: Hyper-V', function () {
  this.timeout(60_000);
  let programs: FakePrograms;
  const { signal } = new AbortController();

  beforeEach(async () => {
    programs = await fakePrograms();
  });
  afterEach(async () => programs.remove());

  const withMachines = async (machines: readonly FakeMachine[]) =>
    new HyperV(powerShell(await fakePowerShell(programs, machines)));
  const printing = async (body: string) => new HyperV(powerShell(await programs.add('powershell', body)));
  const codeOf = (work: Promise<unknown>): Promise<string | undefined> =>
    work.then(
      () => 'nothing',
      (error: unknown) => (error as { code?: string }).code,
    );
  const scriptOf = (args: readonly string[]) => Buffer.from(args.at(-1) ?? '', 'base64').toString('utf16le');

  it('lists none, one and two hundred machines', async () => {
    for (const count of [0, 1, 200]) {
      const machines = Array.from({ length: count }, (_, at) => ({ id: idOf(at), name: `vm ${at}` }));
      const found = await (await withMachines(machines)).list(signal);
      expect(found.map(({ id, name }) => ({ id, name }))).to.deep.equal(machines);
      expect(
        COMMANDS['backup.vm-list'].output.safeParse({ machines: found, truncated: false }).success,
      ).to.equal(true);
    }
  });

  it('describes a machine, its disks and its checkpoints', async () => {
    const checkpoint = {
      id: idOf(9).toUpperCase(),
      name: 'Before',
      parent: '',
      created: '2026-11-20T10:00:00Z',
    };
    const hyperv = await withMachines([
      { id: idOf(1), name: 'files', state: 'Paused', content: '12345', checkpoints: [checkpoint] },
    ]);
    expect(await hyperv.find(idOf(1), signal)).to.deep.equal({
      id: idOf(1),
      name: 'files',
      state: 'paused',
      bootMode: 'uefi',
      generation: 2,
      memoryBytes: 2_147_483_648,
      processors: 2,
      disks: [{ path: String.raw`D:\VMs\files.vhdx`, sizeBytes: 5, isPassthrough: false }],
      tracksChanges: null,
      checkpoints: [{ id: idOf(9), name: 'Before', parentId: null, createdAt: '2026-11-20T10:00:00Z' }],
    });
  });

  it('gives PowerShell the same scripts whatever machines and checkpoints are called', async () => {
    const hyperv = await withMachines([{ id: idOf(1), name: 'a' }]);
    for (const name of HOSTILE_NAMES) {
      await hyperv.checkpoint(idOf(1), { action: 'create', checkpointName: name }, signal);
    }
    const calls = await programs.calls('powershell');
    expect(new Set(calls.map(({ args }) => JSON.stringify(args))).size).to.equal(1);
    expect(calls.map(({ env }) => JSON.parse(env['MUSTER_PARAMETERS'] ?? '').name)).to.deep.equal(
      HOSTILE_NAMES,
    );
    expect(calls[0]?.args.slice(0, 3)).to.deep.equal(['-NoLogo', '-NoProfile', '-NonInteractive']);
  });

  it('never finds a machine by its name, and prints no object whole', async () => {
    const hyperv = await withMachines([
      { id: idOf(1), name: 'a', checkpoints: [{ id: idOf(2), name: 'c' }] },
    ]);
    await hyperv.list(signal);
    await hyperv.find(idOf(1), signal);
    await hyperv.setState(idOf(1), 'stop', signal);
    for (const action of ['create', 'delete', 'apply'] as const) {
      await hyperv.checkpoint(idOf(1), { action, checkpointId: idOf(2) }, signal);
    }
    await hyperv.exportTo(idOf(1), { folder: programs.folder, consistency: 'crash' }, signal);
    const calls = await programs.calls('powershell');
    expect(calls).to.have.length(7);
    for (const { args } of calls) {
      const script = scriptOf(args);
      expect(script).not.to.match(/-(VM)?Name \$p|Get-VM -Name|\| *ConvertTo-Json/);
      expect(script).to.match(/UTF8Encoding/);
      // The limit of a command line of Windows is 32,767 characters.
      expect(args.join(' ').length).to.be.lessThan(16_000);
      for (const [open, close] of ['{}', '()', '[]']) {
        expect(script.split(open!).length, `${open} in ${script}`).to.equal(script.split(close!).length);
      }
    }
  });

  it('says by a code what Hyper-V refuses', async () => {
    const hyperv = await withMachines([{ id: idOf(1), name: 'a', state: 'Off' }]);
    expect(await codeOf(hyperv.find(idOf(2), signal))).to.equal('MACHINE_MISSING');
    expect(await codeOf(hyperv.setState(idOf(1), 'resume', signal))).to.equal('MACHINE_STATE');
    const gone = hyperv.checkpoint(idOf(1), { action: 'delete', checkpointId: idOf(7) }, signal);
    expect(await codeOf(gone)).to.equal('CHECKPOINT_MISSING');
  });

  it('refuses a reply of another form', async () => {
    const ok = (result: unknown) => `MUSTER-ANSWER:${JSON.stringify({ ok: true, result })}`;
    for (const body of [
      '',
      'return 1;',
      `print('x'.repeat(1_000_000));`,
      `for (let at = 0; at < 20; at += 1) print('x'.repeat(1_000_000));`,
      `print('MUSTER-ANSWER:{');`,
      `print('MUSTER-ANSWER:[]');`,
      `print(${JSON.stringify(ok({ a: { b: 'c' } }))});`,
      `print(${JSON.stringify(ok(Array.from({ length: 3 }, () => ({ id: 7 }))))});`,
      `print('MUSTER-ANSWER:' + JSON.stringify({ ok: false, message: 'MUSTER-REFUSAL:rm -rf:/' }));`,
    ]) {
      expect(await codeOf((await printing(body)).list(signal)), body).to.equal('HYPERVISOR_FAILED');
    }
  });

  it('leaves out machines with unusable ids, and cuts long texts', async () => {
    const raw = (id: string, name: string) => ({ id, name, state: 'Exploded', disks: '', checkpoints: null });
    const list = [raw('../x', 'a'), raw("1' or '1", 'b'), raw(idOf(3), 'n'.repeat(5000))];
    const hyperv = await printing(
      `print('MUSTER-ANSWER:' + ${JSON.stringify(JSON.stringify({ ok: true, result: list }))});`,
    );
    const found = await hyperv.list(signal);
    expect(found.map(({ id, name, state }) => [id, name.length, state])).to.deep.equal([
      [idOf(3), 256, 'unknown'],
    ]);
  });

  it('answers at most a thousand machines, and says that there are more', async () => {
    const machines = Array.from({ length: 1001 }, (_, at) => ({ id: idOf(at), name: `vm ${at}`, disks: [] }));
    const queries = machineQueries(new Hypervisors([await withMachines(machines)]));
    const context = { signal, timeUp: signal, row: async () => {} };
    const answer = await queries['backup.vm-list']?.({ hypervisor: 'hyperv' }, context);
    expect([answer?.machines.length, answer?.truncated]).to.deep.equal([1000, true]);
    expect(await codeOf(queries['backup.vm-list']!({ hypervisor: 'kvm' }, context))).to.equal(
      'HYPERVISOR_MISSING',
    );
  });

  it('ends PowerShell when the caller aborts', async () => {
    const hyperv = await printing('Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);');
    const stop = new AbortController();
    const listing = hyperv.list(stop.signal);
    stop.abort();
    expect(
      await listing.then(
        () => 'done',
        () => 'ended',
      ),
    ).to.equal('ended');
  });

  it('is no capability of other systems', async () => {
    const found = await findHypervisors(() => {}, 'linux');
    expect(found.capabilities.filter((name) => name.includes('hyperv'))).to.deep.equal([]);
  });
});
