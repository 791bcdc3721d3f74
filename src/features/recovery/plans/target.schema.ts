import { z } from 'zod';
import { Id, text } from '../../../platform/http/fields.ts';
import { PATH_TEXT_MAX, VM_FORWARDS_MAX, VmNetwork } from '../../../protocol/index.ts';

/** What is restored of a device, where to, and how it is found out that it works. */

const Port = z.number().int().min(1).max(65_535);

const waits = {
  timeoutSeconds: z
    .number()
    .int()
    .min(5)
    .max(3600)
    .default(120)
    .describe('A check is repeated until it passes or this time has expired.'),
};

const Host = z
  .string()
  .regex(/^[A-Za-z0-9_.:-]{1,253}$/, 'must be a host name or an address')
  .optional()
  .describe(
    'As the target device reaches it. Default: that device itself; of a machine: the machine. The rehearsal of a machine never uses it, because the machine has no network and the address may be that of its original.',
  );

export const RecoveryCheck = z
  .discriminatedUnion('type', [
    z.strictObject({
      type: z.literal('tcp'),
      host: Host,
      port: Port.describe('Of a machine: its own port.'),
      ...waits,
    }),
    z.strictObject({
      type: z.literal('http'),
      host: Host,
      port: Port.default(80),
      path: z
        .string()
        .max(2000)
        .regex(/^\/[\x21-\x7e]*$/, 'must be a path that begins with / and has no spaces')
        .default('/'),
      secure: z.boolean().default(false).describe('Over TLS. The certificate is not verified.'),
      expectStatus: z
        .number()
        .int()
        .min(100)
        .max(599)
        .optional()
        .describe('Default: any status from 200 to 399.'),
      contains: text(500).optional().describe('Text that the first 64 KiB of the answer must contain.'),
      ...waits,
    }),
    z.strictObject({
      type: z.literal('script'),
      scriptId: Id.describe(
        'A script that runs on the target device, once, and must end with exit code 0. Its variables: PARAM_EXECUTION_TYPE, PARAM_FOLDER with the folder of restored files, and PARAM_PORT_<port> with the port of the device at which a port of a machine is reached. To name a script in a plan needs scripts:execute. Executions run the version that the script has when it is first saved in a group; later changes of the script count only when `repinScripts` of the group takes them. The version also runs when the script was deleted.',
      ),
    }),
  ])
  .meta({ id: 'RecoveryCheck' });
export type RecoveryCheck = z.infer<typeof RecoveryCheck>;

export const CHECKS_MAX = 10;

const ConfigId = Id.optional().describe(
  'Only snapshots of this backup configuration are used. Default: of any.',
);

const oneLine = (name: string) => !/[\p{Cc}\u2028\u2029]/u.test(name);
const ONE_LINE = 'must be one line without control characters';

const machine = {
  configId: ConfigId,
  machine: text(255)
    .refine(oneLine, ONE_LINE)
    .optional()
    .describe(
      'Of a host of KVM: the id or the name of one of its guests. A host with several guests is in the plan once for each. Default: the machine of the device itself, or where only its guests are backed up, the only one.',
    ),
  vmName: text(200)
    .refine(oneLine, ONE_LINE)
    .optional()
    .describe('Default: the name of the guest or of the device.'),
  memoryMb: z.number().int().min(512).max(4_194_304).optional(),
  cpuCount: z.number().int().min(1).max(255).optional(),
  network: VmNetwork.optional().describe(
    'Of a failover. Default: the network of its host. A rehearsal has no network at all, beside the ports that its checks need, which only its host reaches.',
  ),
};

export const RecoveryRestore = z
  .discriminatedUnion('type', [
    z.strictObject({
      type: z.literal('files'),
      configId: ConfigId,
      selectedPaths: z
        .array(text(PATH_TEXT_MAX))
        .min(1)
        .max(20)
        .optional()
        .describe('Files and folders, by their paths in the snapshot. Default: everything.'),
      targetPath: text(4000)
        .optional()
        .describe(
          'Of a failover: a folder of the target device, to which the files come below their whole paths. Default: the paths that they had. A rehearsal uses a fresh folder of the agent.',
        ),
      overwrite: z
        .enum(['never', 'ifNewer', 'always'])
        .default('always')
        .describe('Of a failover and a failback: what happens to files that are there already.'),
    }),
    z
      .strictObject({ type: z.literal('vm'), ...machine })
      .describe('A virtual machine with disks of its own.'),
    z
      .strictObject({ type: z.literal('instant'), ...machine })
      .describe('A virtual machine that runs straight from its snapshot.'),
  ])
  .meta({ id: 'RecoveryRestore' });
export type RecoveryRestore = z.infer<typeof RecoveryRestore>;

export const RecoveryDevice = z
  .strictObject({
    deviceId: Id.describe('The source: the device whose backups are restored.'),
    targetDeviceId: Id.optional().describe(
      'Where they are restored to; of a machine: its host. Default: the device itself.',
    ),
    restore: RecoveryRestore,
    checks: z.array(RecoveryCheck).max(CHECKS_MAX).default([]).describe('One after another.'),
  })
  .superRefine(({ restore, checks }, context) => {
    if (restore.type === 'files') return;
    const { network } = restore;
    const reached = new Set<number>();
    for (const [index, check] of checks.entries()) {
      if (check.type === 'script') continue;
      reached.add(check.port);
      const needsHost = network !== undefined && network.type !== 'user';
      if (needsHost && check.host === undefined) {
        const message = 'is required: the host of the machine does not know its address in this network';
        context.addIssue({ code: 'custom', path: ['checks', index, 'host'], message });
      }
    }
    if (network?.type === 'user') for (const port of network.forwards) reached.add(port);
    if (reached.size <= VM_FORWARDS_MAX) return;
    const message = `must name at most ${VM_FORWARDS_MAX} ports of the machine, with those of its network`;
    context.addIssue({ code: 'custom', path: ['checks'], message });
  })
  .meta({ id: 'RecoveryDevice' });
export type RecoveryDevice = z.infer<typeof RecoveryDevice>;

/** Of a host of KVM: which of its guests. Null: the device itself. */
export const machineOf = ({ restore }: Pick<RecoveryDevice, 'restore'>): string | null =>
  restore.type === 'files' ? null : (restore.machine ?? null);

/** What is restored: a device, or one guest of it. */
export const sourceKey = (entry: Pick<RecoveryDevice, 'deviceId' | 'restore'>): string =>
  `${entry.deviceId} ${machineOf(entry)?.toLowerCase() ?? ''}`;
