import { createHash, randomBytes } from 'node:crypto';
import { BackupSnapshot } from '../../../src/features/backup/snapshot.model.ts';
import { createRepository } from '../../../src/features/backup-store/repository.service.ts';
import { newId } from '../../../src/platform/ids.ts';
import {
  COMMAND_TYPES,
  type CommandFrame,
  type ImageDetails,
  SECRETS_CAPABILITY,
} from '../../../src/protocol/index.ts';
import { eventually } from '../eventually.ts';
import { buildDevice, type EnrolledDevice, type Ground } from '../factories.ts';
import { connectDevice, type FakeDevice } from '../fake-device.ts';
import type { TestApp } from '../test-app.ts';
import { buildBackupTenant } from '../backup/backup-support.ts';
import { inSystem, request } from '../backup/store-support.ts';

/** Devices that do what a recovery plan asks of them, and remember what they have. */

const IMAGE: ImageDetails = {
  kind: 'image',
  source: 'disk',
  machine: 'web',
  disks: [{ name: 'sda', sizeBytes: 1024 ** 3, offset: 4096, sectorBytes: 512 }],
  bootMode: 'bios',
  consistency: 'crash',
  memoryBytes: 1024 ** 3,
  processors: 1,
  system: 'Debian GNU/Linux 12',
};

type Answer = { output: object } | { error: string } | 'hold';
type Script = (frame: CommandFrame, device: ObedientDevice) => Answer | undefined;

/** What its payload may have. */
export interface Payload {
  restoreId: string;
  targetPath?: string;
  from?: string;
  selectedPaths?: string[];
  overwrite?: string;
  paths?: string[];
  network?: { type: string; isIsolated?: boolean; forwards?: number[] };
  check?: { type: string; host: string; port: number };
  parameters?: Record<string, string>;
  content?: string;
  repository: {
    destination: { path: string; user: string; secret: { secretRef: string } };
  };
}
export const payloadOf = (frame: CommandFrame) => frame.payload as Payload;

export class ObedientDevice {
  readonly enrolled: EnrolledDevice;
  readonly log: CommandFrame[] = [];
  /** Folders of the agent that restores have made, and machines. */
  readonly folders = new Set<string>();
  readonly machines = new Set<string>();
  readonly stopped: string[] = [];
  #link: FakeDevice | undefined;
  #url = '';
  script: Script = () => undefined;
  /** False: it goes on with what it was asked to stop, until `stopHeld`. */
  obeysCancel = true;
  readonly #held: CommandFrame[] = [];

  constructor(enrolled: EnrolledDevice) {
    this.enrolled = enrolled;
  }

  get id(): string {
    return this.enrolled.deviceId;
  }

  async connect(app: Pick<TestApp, 'url'>): Promise<void> {
    const link = await connectDevice(app, this.enrolled.token, {
      capabilities: [...COMMAND_TYPES, SECRETS_CAPABILITY],
    });
    this.#link = link;
    this.#url = app.url;
    link.socket.on('command:cancel', ({ id }: { id: string }) => void this.#stop(link, id));
    void this.#serve(link);
  }

  close(): void {
    this.#link?.close();
    this.#link = undefined;
  }

  types = (): string[] => this.log.map(({ type }) => type);
  held = (): CommandFrame[] => [...this.#held];

  async stopHeld(): Promise<void> {
    this.obeysCancel = true;
    const link = this.#link;
    for (const { id } of this.held()) if (link !== undefined) await this.#stop(link, id);
  }

  /** Answers what was held back. */
  async release(): Promise<void> {
    this.script = () => undefined;
    this.obeysCancel = true;
    for (const frame of this.#held.splice(0)) {
      if (this.#link !== undefined) await this.#answer(this.#link, frame);
    }
  }

  async #serve(link: FakeDevice): Promise<void> {
    for (;;) {
      const frame = await link.nextCommand();
      if (frame.type === 'backup.vm-boots') {
        await link.succeed(frame, { boots: [] }).catch(() => undefined);
        continue;
      }
      this.log.push(frame);
      await this.#answer(link, frame).catch(() => undefined);
    }
  }

  async #answer(link: FakeDevice, frame: CommandFrame): Promise<void> {
    const answer = this.script(frame, this) ?? (await this.#obey(frame));
    if (answer === 'hold') this.#held.push(frame);
    else if ('error' in answer) await link.fail(frame, answer.error);
    else await link.succeed(frame, answer.output);
  }

  async #stop(link: FakeDevice, id: string): Promise<void> {
    if (!this.obeysCancel) return;
    const index = this.#held.findIndex((frame) => frame.id === id);
    const [frame] = index < 0 ? [] : this.#held.splice(index, 1);
    if (frame === undefined) return;
    this.stopped.push(frame.type);
    await link.finish(frame, {
      status: 'cancelled',
      error: { code: 'CANCELLED', message: 'It was stopped.' },
    });
  }

  async #obey(frame: CommandFrame): Promise<Answer> {
    const { restoreId, targetPath, network } = payloadOf(frame);
    const folder = `/agent/${restoreId}`;
    const forwards = (network?.forwards ?? []).map((guestPort) => ({
      hostPort: 40_000 + guestPort,
      guestPort,
    }));
    const machine = { state: 'running', folder, console: null, forwards, warnings: [] };
    switch (frame.type) {
      case 'backup.restore':
        if (targetPath === undefined) this.folders.add(restoreId);
        return { output: { ...RESTORED, targetPath: targetPath ?? folder } };
      case 'recovery.discard-restore':
        return { output: { wasThere: this.folders.delete(restoreId) } };
      case 'backup.vm-from-image':
        this.machines.add(restoreId);
        return { output: { ...machine, disks: [], seconds: 1 } };
      case 'backup.vm-instant-boot':
        this.machines.add(restoreId);
        return { output: { ...machine, accelerator: 'kvm', seconds: { mount: 0, overlay: 0, start: 0 } } };
      case 'backup.vm-discard':
        return { output: { wasThere: this.machines.delete(restoreId) } };
      case 'recovery.check':
        return { output: { passed: true, message: 'It answered.', attempts: 1, seconds: 0 } };
      case 'script.run':
        return { output: { exitCode: 0, stdout: '', stderr: '', truncated: false } };
      case 'backup.vm-save':
        if (!this.machines.has(restoreId)) return { error: 'MACHINE_MISSING' };
        return {
          output: {
            ...BACKED_UP,
            snapshotId: await this.#upload(frame),
            details: { ...IMAGE, source: 'kvm', consistency: 'filesystem' },
          },
        };
      case 'backup.run':
        return { output: { ...BACKED_UP, snapshotId: await this.#upload(frame) } };
      default:
        return { error: 'CAPABILITY_MISSING' };
    }
  }

  async #upload({ payload, secrets = {} }: CommandFrame): Promise<string> {
    const { destination } = (payload as Payload).repository;
    const content = randomBytes(100);
    const name = createHash('sha256').update(content).digest('hex');
    const secret = secrets[destination.secret.secretRef] ?? '';
    const credential = { id: '', user: destination.user, secret };
    const repositoryId = destination.path.split('/')[2] ?? '';
    await request(this.#url, repositoryId, credential, ['POST', `snapshots/${name}`], { body: content });
    return name;
  }
}

const RESTORED = {
  status: 'completed',
  filesRestored: 3,
  bytesRestored: 300,
  filesSkipped: 0,
  seconds: 0.1,
  failed: { count: 0, paths: [] },
};
const BACKED_UP = {
  status: 'completed',
  filesNew: 1,
  filesChanged: 1,
  filesUnmodified: 1,
  bytesProcessed: 300,
  bytesAdded: 100,
  seconds: 0.1,
  unreadable: { count: 0, paths: [] },
};

type App = TestApp & Ground;

/** A tenant with six devices, each with a snapshot of files and one of its disk, taken an hour ago. */
export async function buildRecoveryWorld(app: App) {
  const tenant = await buildBackupTenant(app);
  const { id: configId } = await tenant.createConfig({ sources: { paths: { linux: ['/srv/data'] } } });
  const devices: ObedientDevice[] = [];
  for (let index = 0; index < 6; index++) {
    const enrolled = await buildDevice(app, tenant.orgId, { hostname: `srv-${index}` });
    await inSystem(app, async (tx) => {
      const { id: repositoryId } = await createRepository(tx, {
        orgId: tenant.orgId,
        deviceId: enrolled.deviceId,
        configId,
        encryptionKeyId: tenant.keyId,
        keyVersion: 1,
        initializedAt: new Date(),
      });
      const taken = new Date(Date.now() - 3_600_000);
      const common = {
        orgId: tenant.orgId,
        deviceId: enrolled.deviceId,
        configId,
        repositoryId,
        receivedAt: taken,
      };
      const rows = [
        { backupType: 'file' as const, paths: ['/srv/data', '/etc/app.conf'] },
        { backupType: 'system_image' as const, paths: ['sda'], details: IMAGE },
      ];
      for (const row of rows) {
        await BackupSnapshot.query(tx).insert({
          ...common,
          ...row,
          engineId: randomBytes(32).toString('hex'),
          takenAt: taken,
          isPartial: false,
        });
      }
    });
    devices.push(new ObedientDevice(enrolled));
  }
  const at = (index: number): ObedientDevice => {
    const found = devices[index];
    if (found === undefined) throw new Error(`no device ${index}`);
    return found;
  };
  const post = async (path: string, body: unknown, status = 201) => {
    const answer = await tenant.send('POST', path, body);
    if (answer.status !== status) throw new Error(`${path}: ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  const entry = (source: number, target: number, restore: object, checks: object[] = []) => ({
    deviceId: at(source).id,
    targetDeviceId: at(target).id,
    restore,
    checks,
  });
  return {
    ...tenant,
    configId: configId as string,
    devices,
    at,
    post,
    entry,
    read: async (id: string) => (await tenant.send('GET', `/dr/executions/${id}`)).body,
    /** Three groups with six devices: files below a folder, in place and at home, a machine and an instant boot. */
    async createPlan(given: object = {}) {
      const { id: scriptId } = await post('/scripts', {
        orgId: tenant.orgId,
        name: `Check ${newId()}`,
        language: 'bash',
        content: 'true',
      });
      const plan = await post('/dr/plans', {
        orgId: tenant.orgId,
        name: `Plan ${newId()}`,
        rtoTargetMinutes: 30,
        rpoTargetMinutes: 90,
        ...given,
      });
      const add = (body: object) => post(`/dr/plans/${plan.id}/groups`, body);
      const tcp = { type: 'tcp', port: 5432 };
      const http = { type: 'http', port: 80, path: '/health', expectStatus: 200 };
      const first = await add({
        name: 'Databases',
        sequence: 0,
        devices: [
          entry(0, 1, { type: 'files', targetPath: '/srv/dr' }, [tcp, { type: 'script', scriptId }]),
          entry(1, 0, { type: 'files' }),
        ],
      });
      await add({
        name: 'Applications',
        sequence: 1,
        dependsOnGroupId: first.id,
        devices: [
          entry(2, 3, { type: 'vm' }, [tcp]),
          entry(3, 2, { type: 'files', selectedPaths: ['/srv/data'] }),
        ],
      });
      await add({
        name: 'Edge',
        sequence: 2,
        devices: [
          entry(4, 5, { type: 'instant', vmName: 'edge' }, [http]),
          entry(5, 5, { type: 'files', targetPath: '/srv/own' }),
        ],
      });
      return plan.id as string;
    },
    execute: async (planId: string, executionType: string, more: object = {}) =>
      (await post(`/dr/plans/${planId}/execute`, { executionType, ...more })).id as string,
    async ended(id: string) {
      return eventually(
        () => this.read(id),
        ({ finishedAt }) => finishedAt !== null,
        30_000,
      );
    },
    /** Every device as it was. */
    async reset() {
      for (const device of devices) {
        await device.release();
        device.log.length = 0;
        device.stopped.length = 0;
        device.folders.clear();
        device.machines.clear();
      }
    },
    left: () => devices.flatMap(({ folders, machines }) => [...folders, ...machines]),
  };
}
export type RecoveryWorld = Awaited<ReturnType<typeof buildRecoveryWorld>>;
