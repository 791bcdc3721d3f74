import { randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { openMachines } from '../../../../../src/agent/capabilities/hypervisors/handlers.ts';
import { HyperV } from '../../../../../src/agent/capabilities/hypervisors/hyperv.ts';
import { powerShell } from '../../../../../src/agent/capabilities/hypervisors/hyperv-scripts.ts';
import { Hypervisors } from '../../../../../src/agent/capabilities/hypervisors/hypervisors.ts';
import { openPrivateFolder } from '../../../../../src/agent/os/files/private-folder.ts';
import { environmentNetwork } from '../../../../../src/agent/os/network/network.ts';
import { LocalEngine } from '../../../../../src/agent/repository/local-engine.ts';
import { boundHandler } from '../../../../../src/agent/work/handler.ts';
import {
  BackupResult,
  COMMANDS,
  type CommandOutput,
  MACHINE_MANIFEST,
  MachineManifest,
} from '../../../../../src/protocol/index.ts';
import { openWorkbench, stockRestic, type Workbench } from '../../../engine/engine-support.ts';
import { fakePrograms, type FakePrograms } from '../../support/fake-programs.ts';
import { type FakeMachine, fakePowerShell, HOSTILE_NAMES, idOf } from './hyperv-support.ts';

type MachineCommand = 'backup.machine' | 'backup.vm-restore' | 'backup.vm-export';

describe('agent: backups of machines', function () {
  this.timeout(120_000);
  let bench: Workbench;
  let programs: FakePrograms;
  let folder: string;
  let warnings: string[];

  before(async function () {
    bench = await openWorkbench(this);
  });
  after(async () => bench?.remove());
  beforeEach(async () => {
    programs = await fakePrograms();
    warnings = [];
    folder = await openPrivateFolder(bench.at(`agent-${randomUUID()}`));
    await mkdir(path.join(programs.folder, 'host'));
  });
  afterEach(async () => programs.remove());

  /** An agent on a host with these machines, and one repository. */
  async function host(machines: readonly FakeMachine[]) {
    const repository = await bench.repository(`repository-${randomUUID()}`);
    const warn = (message: string) => void warnings.push(message);
    const parts = {
      engine: new LocalEngine({ folder, warn }),
      server: 'https://muster.example',
      network: environmentNetwork({}),
      dataDir: folder,
      folder,
      warn,
    };
    const hyperv = new HyperV(powerShell(await fakePowerShell(programs, machines)));
    const handlers = await openMachines(parts, new Hypervisors([hyperv]));
    const secretRef = randomUUID();
    const { destination, password, keyHint } = repository;
    const access = { destination, password: { secretRef }, keyHint };
    const phases = new Set<string>();
    async function run<T extends MachineCommand>(type: T, payload: object): Promise<CommandOutput<T>> {
      const shared = { hypervisor: 'hyperv', timeoutSeconds: 60, consistency: 'application' };
      const all = {
        ...shared,
        jobId: randomUUID(),
        restoreId: randomUUID(),
        repository: access,
        host: 'h',
        ...payload,
      };
      const output = await boundHandler<object>(handlers, { type, payload: all })({
        signal: new AbortController().signal,
        secret: () => password,
        progress: ({ phase }: { phase?: string }) => void phases.add(phase ?? ''),
        rows: async () => {},
        afterResult: () => {},
      });
      return COMMANDS[type].output.parse(output) as CommandOutput<T>;
    }
    const codeOf = (work: Promise<unknown>): Promise<string | undefined> =>
      work.then(
        () => 'nothing',
        (error: unknown) => (error as { code?: string }).code,
      );
    const backUp = (payload: object) => run('backup.machine', payload);
    const stock = (...args: string[]) => stockRestic(repository, ...args);
    return { run, backUp, codeOf, stock, phases, repository };
  }
  const spool = () => readdir(path.join(folder, 'machines'));

  it('makes one snapshot of all machines, with a list of them, and leaves no export behind', async () => {
    const machines = [
      { id: idOf(1), name: 'files', content: 'disk one' },
      { id: idOf(2), name: HOSTILE_NAMES[0]!, content: 'disk two' },
    ];
    const { backUp, stock, phases } = await host(machines);
    const result = await backUp({ machines: 'all' });
    expect(BackupResult.parse(result)).to.include({ status: 'completed' });
    expect(await spool()).to.deep.equal([]);
    expect([...phases]).to.include('exporting');
    const files = stock('ls', result.snapshotId!).split('\n');
    const manifest = files.find((name) => name.endsWith(MACHINE_MANIFEST))!;
    const listed = MachineManifest.parse(JSON.parse(stock('dump', result.snapshotId!, manifest)));
    expect(listed.machines.map(({ id, name }) => ({ id, name }))).to.deep.equal(
      machines.map(({ id, name }) => ({ id, name })),
    );
    expect(files.filter((name) => name.endsWith('disk.vhdx'))).to.have.length(2);
    expect(result.details).to.deep.include({ kind: 'machines', hypervisor: 'hyperv' });
    expect(JSON.stringify(result.details)).not.to.include('folder');
    expect(warnings).to.deep.equal([]);
  });

  it('backs up the other machines if one fails, and names the failed one', async () => {
    const { backUp } = await host([
      { id: idOf(1), name: 'files', content: 'a' },
      { id: idOf(2), name: 'disk of the host', disks: [{ path: '', size: null, passthrough: true }] },
      { id: idOf(3), name: 'old', content: 'b', cannotPause: true },
      { id: idOf(4), name: 'twin' },
      { id: idOf(5), name: 'twin' },
    ]);
    const names = [idOf(1).toUpperCase(), 'disk of the host', 'OLD', 'twin', 'nobody'];
    const result = await backUp({ machines: names });
    expect(result.status).to.equal('partial');
    expect(result.unreadable.paths.map(({ path: name }) => name).sort()).to.deep.equal(
      ['disk of the host', 'nobody', 'old', 'twin'].sort(),
    );
    const { details } = result;
    const saved = details?.kind === 'machines' ? details.machines : [];
    expect(saved.map(({ name, consistency }) => [name, consistency])).to.deep.equal([
      ['files', 'application'],
      ['old', 'crash'],
    ]);
  });

  it('fails with the reason if no machine can be backed up', async () => {
    const { backUp, codeOf, stock } = await host([
      { id: idOf(2), name: 'p', disks: [{ path: '', size: null, passthrough: true }] },
    ]);
    expect(await codeOf(backUp({ machines: 'all' }))).to.equal('PASSTHROUGH_DISK');
    expect(await codeOf(backUp({ machines: ['nobody'] }))).to.equal('MACHINE_MISSING');
    expect(JSON.parse(stock('snapshots', '--json'))).to.have.length(0);
    expect(await spool()).to.deep.equal([]);
  });

  it('exports nothing for which the disk has no room', async () => {
    const huge = { path: 'D:\\huge.vhdx', size: Number.MAX_SAFE_INTEGER, passthrough: false };
    const { backUp, codeOf } = await host([{ id: idOf(1), name: 'huge', disks: [huge] }]);
    expect(await codeOf(backUp({ machines: 'all' }))).to.equal('TARGET_FULL');
    expect((await programs.calls('powershell')).length).to.equal(1);
  });

  it('restores one of the machines as a new one, with its disk', async () => {
    const { backUp, run } = await host([
      { id: idOf(1), name: 'files', content: 'disk one' },
      { id: idOf(2), name: 'mail', content: 'disk two' },
    ]);
    const { snapshotId } = await backUp({ machines: 'all' });
    const restored = await run('backup.vm-restore', {
      snapshotId,
      machine: 'mail',
      vmName: "mail's copy",
      generateNewId: true,
    });
    expect(restored).to.include({ status: 'completed', vmName: "mail's copy", filesRestored: 3 });
    expect(restored.machineId).not.to.equal(idOf(2));
    expect(restored.targetPath.startsWith(path.join(programs.folder, 'host'))).to.equal(true);
    const disk = path.join(restored.targetPath, 'Virtual Hard Disks', 'disk.vhdx');
    expect(await readFile(disk, 'utf8')).to.equal('disk two');
    expect(await readdir(path.dirname(restored.targetPath))).to.deep.equal(['machine']);
    const again = await run('backup.vm-restore', { snapshotId, machine: idOf(1), generateNewId: false });
    expect(again.machineId).to.equal(idOf(1));
  });

  it('asks which machine, and refuses one that the snapshot does not have', async () => {
    const { backUp, run, codeOf } = await host([
      { id: idOf(1), name: 'a' },
      { id: idOf(2), name: 'b' },
    ]);
    const { snapshotId } = await backUp({ machines: 'all' });
    const restore = (more: object) =>
      codeOf(run('backup.vm-restore', { snapshotId, generateNewId: true, ...more }));
    expect(await restore({})).to.equal('MACHINE_AMBIGUOUS');
    expect(await restore({ machine: 'c' })).to.equal('MACHINE_MISSING');
    expect(await restore({ machine: 'a', targetPath: 'relative' })).to.equal('TARGET_UNSAFE');
    expect(await restore({ machine: 'a', targetPath: path.join(folder, 'inside') })).to.equal(
      'TARGET_UNSAFE',
    );
    expect(await readdir(path.join(programs.folder, 'host'))).to.deep.equal([]);
  });

  it('imports nothing of a snapshot that holds links, or a list that leads elsewhere', async () => {
    const { run, stock } = await host([]);
    const attempt = async (prepare: (at: string) => Promise<void>) => {
      const at = bench.at(`hostile-${randomUUID()}`);
      await mkdir(path.join(at, idOf(1), 'Virtual Machines'), { recursive: true });
      await writeFile(path.join(at, idOf(1), 'Virtual Machines', `${idOf(1)}.vmcx`), 'x');
      await prepare(at);
      stock('backup', at);
      const { id } = (JSON.parse(stock('snapshots', '--json')) as { id: string }[]).at(-1)!;
      const failure = run('backup.vm-restore', { snapshotId: id, generateNewId: true });
      return failure.then(
        () => 'nothing',
        (error: unknown) => (error as Error).message,
      );
    };
    const manifest = (more: object = {}) =>
      JSON.stringify({
        version: 1,
        hypervisor: 'hyperv',
        machines: [
          {
            id: idOf(1),
            name: 'a',
            folder: idOf(1),
            generation: 2,
            bootMode: 'uefi',
            memoryBytes: 1,
            processors: 1,
            consistency: 'crash',
            bytes: 1,
            ...more,
          },
        ],
      });
    const list = (at: string, text: string) => writeFile(path.join(at, MACHINE_MANIFEST), text);
    expect(await attempt((at) => list(at, manifest({ folder: '../../etc' })))).to.match(/list of machines/);
    expect(await attempt((at) => list(at, manifest({ folder: 'elsewhere' })))).to.match(/no files/);
    expect(await attempt((at) => list(at, '{'))).to.match(/list of machines/);
    expect(await attempt(async () => {})).to.match(/has no machines/);
    const linked = attempt(async (at) => {
      await list(at, manifest());
      await symlink('/etc', path.join(at, idOf(1), 'Virtual Hard Disks'));
    });
    expect(await linked).to.match(/more than the files/);
    expect((await programs.calls('powershell')).length).to.be.lessThan(6);
    expect(await readdir(path.join(programs.folder, 'host'))).to.deep.equal([]);
  });

  it('exports one machine into a folder, if it stays', async () => {
    const { run, codeOf } = await host([{ id: idOf(1), name: 'a', content: '12345' }]);
    const exportPath = bench.at(`exports-${randomUUID()}`);
    const done = await run('backup.vm-export', { machineId: idOf(1), exportPath });
    expect(path.dirname(done.folder)).to.equal(exportPath);
    expect(done.consistency).to.equal('application');
    expect(done.bytes).to.be.greaterThan(5);
    expect(await readdir(done.folder)).to.deep.equal(['a']);
    expect(await codeOf(run('backup.vm-export', { machineId: idOf(1), exportPath: folder }))).to.equal(
      'TARGET_UNSAFE',
    );
  });
});
