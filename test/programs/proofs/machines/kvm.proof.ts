import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdir, open, readdir, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { openMachines } from '../../../../src/agent/capabilities/hypervisors/handlers.ts';
import { Hypervisors } from '../../../../src/agent/capabilities/hypervisors/hypervisors.ts';
import { Kvm } from '../../../../src/agent/capabilities/hypervisors/kvm.ts';
import { virsh } from '../../../../src/agent/capabilities/hypervisors/kvm-disks.ts';
import { openPrivateFolder } from '../../../../src/agent/os/files/private-folder.ts';
import { environmentNetwork } from '../../../../src/agent/os/network/network.ts';
import { readFrom } from '../../../../src/agent/os/read-disk.ts';
import { readOutput } from '../../../../src/agent/os/child-process.ts';
import { findByCommand } from '../../../../src/agent/os/process-group.ts';
import { LocalEngine } from '../../../../src/agent/repository/local-engine.ts';
import { boundHandler } from '../../../../src/agent/work/handler.ts';
import { openMachine } from '../../../../src/engine/index.ts';
import { BackupResult, COMMANDS } from '../../../../src/protocol/index.ts';
import { openWorkbench } from '../../engine/engine-support.ts';
import { type Libvirtd, needsLibvirt, startLibvirtd } from './libvirtd.ts';

const MIB = 1024 ** 2;
const BLOCK = 64 * 1024;
const EXPORT = fileURLToPath(new URL('export-machine.ts', import.meta.url));

/** Machines without an operating system: qemu itself writes to their disks, as a guest would. */
describe('proof: machines of libvirt', function () {
  this.timeout(300_000);
  let libvirt: Libvirtd;
  let warnings: string[];
  const { signal } = new AbortController();

  before(async function () {
    needsLibvirt(this);
    libvirt = await startLibvirtd();
  });
  after(async () => libvirt?.stop());
  beforeEach(() => (warnings = []));

  const kvm = () =>
    new Kvm({
      run: virsh('virsh', libvirt.uri),
      nbd: 'qemu-nbd',
      image: 'qemu-img',
      warn: (message) => void warnings.push(message),
    });

  async function makeMachine(name: string, formats: readonly ('qcow2' | 'raw')[], mib = 64) {
    const id = randomUUID();
    const folder = path.join(libvirt.folder, `disks, of ${id}`);
    await mkdir(folder);
    const disks = [];
    for (const [index, format] of formats.entries()) {
      const file = path.join(folder, `disk${index}.${format}`);
      await readOutput('qemu-img', ['create', '-q', '-f', format, file, `${mib}M`]);
      disks.push({ file, target: `vd${'abc'[index]}` });
    }
    const xml = `<domain type='qemu'><name>${name}</name><uuid>${id}</uuid><memory unit='MiB'>64</memory><vcpu>1</vcpu>
      <os><type arch='x86_64' machine='q35'>hvm</type></os><devices>
      ${disks.map(({ file, target }, index) => `<disk type='file' device='disk'><driver name='qemu' type='${formats[index]}'/><source file='${file}'/><target dev='${target}' bus='virtio'/></disk>`).join('')}
      <disk type='file' device='cdrom'><target dev='sda' bus='sata'/><readonly/></disk>
      <interface type='user'><mac address='52:54:00:01:02:03'/></interface>
      <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel></devices></domain>`;
    const file = path.join(folder, 'domain.xml');
    await writeFile(file, xml);
    await libvirt.virsh('define', file);
    return { id, folder, disks };
  }

  /** Fills a block of a disk of a machine that runs. */
  const write = (id: string, disk: number, block: number, value: number) =>
    libvirt.virsh(
      'qemu-monitor-command',
      id,
      '--hmp',
      `qemu-io -d /machine/peripheral/virtio-disk${disk}/virtio-backend "write -P ${value} ${block * BLOCK} ${BLOCK}"`,
    );

  async function read(file: string, at: number): Promise<number | undefined> {
    const handle = await open(file);
    try {
      const bytes = await readFrom(handle)(at, BLOCK);
      return bytes.every((byte) => byte === bytes[0]) ? bytes[0] : undefined;
    } finally {
      await handle.close();
    }
  }

  /** The value of a block in a disk, by another program than the agent's. */
  async function inDisk(file: string, block: number): Promise<number | undefined> {
    const copy = `${file}.copy`;
    await readOutput('qemu-img', ['convert', '-U', '-O', 'raw', file, copy], { timeoutMs: 60_000 });
    return read(copy, block * BLOCK);
  }

  async function exportFolder(): Promise<string> {
    const folder = path.join(libvirt.folder, `export-${randomUUID()}`);
    await mkdir(folder, { mode: 0o700 });
    return folder;
  }

  async function inArchive(folder: string, disk: number, block: number): Promise<number | undefined> {
    const file = path.join(folder, 'machine.tar');
    const handle = await open(file);
    const { disks } = await openMachine(readFrom(handle));
    await handle.close();
    return read(file, (disks[disk]?.offset ?? 0) + block * BLOCK);
  }

  /** What is left of the programs that an agent has started to read disks. */
  async function imageServersOf(pid = 0) {
    const start = path.join(tmpdir(), `muster-disk-${pid}-`);
    const processes = await findByCommand((words) => words.some((word) => word.includes(start)));
    const folders = (await readdir(tmpdir())).filter((name) => name.startsWith(path.basename(start)));
    return { processes: processes.length, folders: folders.length };
  }

  const overlaysIn = async (folder: string) =>
    (await readdir(folder)).filter((name) => name.startsWith('muster-backup-'));

  it('are saved at one point in time while they run, and go on with what they write meanwhile', async () => {
    const { id, folder, disks } = await makeMachine('runs', ['qcow2', 'raw']);
    await libvirt.virsh('start', id);
    await write(id, 0, 3, 0x41);
    await write(id, 1, 3, 0x42);
    const target = await exportFolder();
    let isWritten = false;
    const reached = await kvm().exportTo(
      id,
      {
        folder: target,
        consistency: 'crash',
        onBytes: () => {
          if (isWritten) return;
          isWritten = true;
          void write(id, 0, 3, 0x51).then(() => write(id, 1, 900, 0x52));
        },
      },
      signal,
    );
    expect(reached).to.deep.equal({ consistency: 'crash' });
    expect(warnings).to.deep.equal([]);
    expect([
      await inArchive(target, 0, 3),
      await inArchive(target, 1, 3),
      await inArchive(target, 1, 900),
    ]).to.deep.equal([0x41, 0x42, 0]);
    const { blocks } = await stat(path.join(target, 'machine.tar'));
    expect(blocks * 512).to.be.lessThan(3 * MIB);
    expect(await overlaysIn(folder)).to.deep.equal([]);
    expect(await libvirt.virsh('dumpxml', id)).not.to.include('muster-backup-');
    await delay(500);
    await libvirt.virsh('destroy', id);
    expect([await inDisk(disks[0]!.file, 3), await inDisk(disks[1]!.file, 900)]).to.deep.equal([0x51, 0x52]);
  });

  it('are not quiet without an agent in them, and nothing is left of the attempt', async () => {
    const { id, folder } = await makeMachine('without an agent', ['qcow2']);
    await libvirt.virsh('start', id);
    const wanted = { folder: await exportFolder(), consistency: 'application' } as const;
    const code = await kvm()
      .exportTo(id, wanted, signal)
      .then(
        () => 'none',
        (error: { code?: string }) => error.code,
      );
    expect(code).to.equal('NOT_CONSISTENT');
    expect(await overlaysIn(folder)).to.deep.equal([]);
  });

  it('lose nothing if the agent is killed at any moment of a backup: the next one merges', async () => {
    const { id, folder, disks } = await makeMachine('killed', ['qcow2', 'raw'], 512);
    await libvirt.virsh('start', id);
    for (const [round, pauseMs] of [0, 60, 150, 400, 900].entries()) {
      const target = await exportFolder();
      const child = spawn(process.execPath, ['--import', 'tsx', EXPORT, id, target, libvirt.uri], {
        stdio: 'ignore',
      });
      const ended = new Promise((resolve) => child.once('close', resolve));
      while ((await overlaysIn(folder)).length === 0 && child.exitCode === null) await delay(10);
      await delay(pauseMs);
      // Otherwise it would show nothing.
      expect((await overlaysIn(folder)).length).to.be.greaterThan(0);
      child.kill('SIGKILL');
      await ended;
      await write(id, 0, round, 0x60 + round);
      await write(id, 1, round, 0x70 + round);
      const next = kvm();
      next.recover();
      await next.recovered();
      expect(await libvirt.virsh('dumpxml', id)).not.to.include('muster-backup-');
      expect(await overlaysIn(folder)).to.deep.equal([]);
      expect(warnings).to.deep.equal([]);
      expect(await imageServersOf(child.pid)).to.deep.equal({ processes: 0, folders: 0 });
    }
    await libvirt.virsh('destroy', id);
    for (let round = 0; round < 5; round += 1) {
      expect([await inDisk(disks[0]!.file, round), await inDisk(disks[1]!.file, round)]).to.deep.equal([
        0x60 + round,
        0x70 + round,
      ]);
    }
  });

  it('are whole with an overlay that is left when they are off, and merged when they run again', async () => {
    const { id, folder, disks } = await makeMachine('off with an overlay', ['raw']);
    await libvirt.virsh('start', id);
    await write(id, 0, 1, 0x21);
    const overlay = path.join(folder, `muster-backup-${id}-vda-0a1b2c3d.qcow2`).replaceAll(',', ',,');
    const words = [
      '--disk-only',
      '--no-metadata',
      '--diskspec',
      `vda,driver=qcow2,file=${overlay}`,
      '--diskspec',
      'sda,snapshot=no',
    ];
    await libvirt.virsh('snapshot-create-as', id, ...words);
    await write(id, 0, 2, 0x22);
    await libvirt.virsh('destroy', id);
    const target = await exportFolder();
    expect(await kvm().exportTo(id, { folder: target, consistency: 'application' }, signal)).to.deep.equal({
      consistency: 'application',
    });
    expect([await inArchive(target, 0, 1), await inArchive(target, 0, 2)]).to.deep.equal([0x21, 0x22]);
    expect(warnings.join()).to.include('merged when it runs again');
    await kvm().setState(id, 'start', signal);
    expect(await overlaysIn(folder)).to.deep.equal([]);
    await libvirt.virsh('destroy', id);
    expect([await inDisk(disks[0]!.file, 1), await inDisk(disks[0]!.file, 2)]).to.deep.equal([0x21, 0x22]);
  });

  it('are made again of an export, as another machine that starts', async () => {
    const { id } = await makeMachine('&amp; copied &lt;x&gt;', ['qcow2', 'raw']);
    await libvirt.virsh('start', id);
    await write(id, 1, 5, 0x35);
    const source = await exportFolder();
    await kvm().exportTo(id, { folder: source, consistency: 'crash' }, signal);
    const targetFolder = path.join(await exportFolder(), 'machine');
    await mkdir(targetFolder);
    const made = await kvm().importFrom(source, { generateNewId: true, targetFolder }, signal);
    expect(made.vmName).to.equal('& copied <x>-restored');
    await kvm().setState(made.machineId, 'start', signal);
    const machine = await kvm().find(made.machineId, signal);
    expect(machine).to.include({ state: 'running', memoryBytes: 64 * MIB });
    expect(await libvirt.virsh('dumpxml', made.machineId)).not.to.include('52:54:00:01:02:03');
    await kvm().setState(made.machineId, 'force_stop', signal);
    expect(await inDisk(machine.disks[1]!.path, 5)).to.equal(0x35);
    const again = kvm().importFrom(source, { generateNewId: false, targetFolder }, signal);
    expect(
      await again.then(
        () => 'none',
        (error: { code?: string }) => error.code,
      ),
    ).to.equal('MACHINE_INCOMPATIBLE');
  });

  it('have checkpoints to which they go back', async () => {
    const { id } = await makeMachine('with checkpoints', ['qcow2']);
    await libvirt.virsh('start', id);
    const checkpoint = { action: 'create', checkpointName: '-before  the update' } as const;
    await kvm().checkpoint(id, checkpoint, signal);
    await kvm().checkpoint(id, { action: 'create', checkpointName: 'second' }, signal);
    const [first, second] = (await kvm().find(id, signal)).checkpoints;
    expect([first?.name, first?.parentId, second?.name, second?.parentId]).to.deep.equal([
      '-before  the update',
      null,
      'second',
      first?.id,
    ]);
    await kvm().checkpoint(id, { action: 'apply', checkpointId: first!.id }, signal);
    await kvm().checkpoint(id, { action: 'delete', checkpointId: second!.id }, signal);
    expect((await kvm().find(id, signal)).checkpoints).to.have.length(1);
  });

  it('go into a repository and come back by the commands of the server', async function () {
    const bench = await openWorkbench(this);
    try {
      const { id } = await makeMachine('in a repository', ['qcow2']);
      await libvirt.virsh('start', id);
      await write(id, 0, 4, 0x44);
      const folder = await openPrivateFolder(bench.at('agent'));
      const warn = (message: string) => void warnings.push(message);
      const engine = new LocalEngine({ folder, warn });
      const network = environmentNetwork({});
      const parts = { engine, server: 'https://muster.example', network, dataDir: folder, folder, warn };
      const handlers = await openMachines(parts, new Hypervisors([kvm()]));
      const { destination, password, keyHint } = await bench.repository('repository');
      const shared = {
        repository: { destination, password: { secretRef: randomUUID() }, keyHint },
        hypervisor: 'kvm',
        timeoutSeconds: 120,
      };
      const run = async <T extends 'backup.machine' | 'backup.vm-restore'>(type: T, payload: object) =>
        COMMANDS[type].output.parse(
          await boundHandler<object>(handlers, { type, payload: { ...shared, ...payload } })({
            signal,
            secret: () => password,
            progress: () => {},
            rows: async () => {},
            afterResult: () => {},
          }),
        );
      const order = {
        jobId: randomUUID(),
        host: 'h',
        machines: ['in a repository'],
        consistency: 'application',
      };
      const made = BackupResult.parse(await run('backup.machine', order));
      // There is no agent in the machine, and the result says so.
      expect(made.status).to.equal('partial');
      expect(made.unreadable.paths[0]?.message).to.include('as after a power cut');
      expect(made.details).to.deep.include({ kind: 'machines', hypervisor: 'kvm' });
      const targetPath = bench.at('machines');
      await mkdir(targetPath);
      const wanted = {
        restoreId: randomUUID(),
        snapshotId: made.snapshotId,
        generateNewId: true,
        targetPath,
      };
      const restored = COMMANDS['backup.vm-restore'].output.parse(await run('backup.vm-restore', wanted));
      expect(restored.vmName).to.equal('in a repository-restored');
      const machine = await kvm().find(restored.machineId, signal);
      expect(await inDisk(machine.disks[0]!.path, 4)).to.equal(0x44);
    } finally {
      await bench.remove();
    }
  });
});
