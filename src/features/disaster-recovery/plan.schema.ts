import { z } from 'zod';
import { Id, nfcText, Timestamp, text } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import { BackupSchedule, scheduleTimes } from '../backup/index.ts';
import { PATH_TEXT_MAX, VM_FORWARDS_MAX, VmNetwork, ImageDetails } from '../../protocol/index.ts';

/** The data to restore of a device, its target, and the checks. */

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
      port: Port.describe('For a machine: its own port.'),
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

const CHECKS_MAX = 10;

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
      'For a host of KVM: the id or the name of one of its guests. A host with several guests is in the plan once for each. Default: the machine of the device itself, or where only its guests are backed up, the only one.',
    ),
  vmName: text(200)
    .refine(oneLine, ONE_LINE)
    .optional()
    .describe('Default: the name of the guest or of the device.'),
  memoryMb: z.number().int().min(512).max(4_194_304).optional(),
  cpuCount: z.number().int().min(1).max(255).optional(),
  network: VmNetwork.optional().describe(
    'For a failover. Default: the network of its host. A rehearsal has no network at all, beside the ports that its checks need, which only its host reaches.',
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
          'For a failover: a folder of the target device, to which the files come below their whole paths. Default: the paths that they had. A rehearsal uses a fresh folder of the agent.',
        ),
      overwrite: z
        .enum(['never', 'ifNewer', 'always'])
        .default('always')
        .describe('For a failover and a failback: how existing files are treated.'),
    }),
    z.strictObject({ type: z.literal('vm'), ...machine }).describe('A virtual machine with its own disks.'),
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
    checks: z.array(RecoveryCheck).max(CHECKS_MAX).default([]).describe('Run one after another.'),
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

/** For a KVM host: the guest. Null: the device itself. */
export const machineOf = ({ restore }: Pick<RecoveryDevice, 'restore'>): string | null =>
  restore.type === 'files' ? null : (restore.machine ?? null);

/** The source: a device, or one guest of it. */
export const sourceKey = (entry: Pick<RecoveryDevice, 'deviceId' | 'restore'>): string =>
  `${entry.deviceId} ${machineOf(entry)?.toLowerCase() ?? ''}`;

export const PLAN_STATUSES = ['draft', 'active', 'archived'] as const;
export const EXECUTION_TYPES = ['rehearsal', 'failover', 'failback'] as const;
export type ExecutionType = (typeof EXECUTION_TYPES)[number];
export const EXECUTION_STATUSES = ['pending', 'running', 'completed', 'failed', 'aborted'] as const;
export type ExecutionStatus = (typeof EXECUTION_STATUSES)[number];

/** The most groups of a plan. */
export const GROUPS_MAX = 50;
/** The most devices of a plan, in all its groups. */
export const DEVICES_MAX = 200;

const Minutes = z.number().int().min(1).max(525_600);

const Schedule = BackupSchedule.refine(scheduleTimes.isEverDue, {
  path: ['time'],
  message: 'must name a minute that lies within the window in some hour',
});

const planFields = {
  description: nfcText(2000, 0).nullable().optional(),
  rpoTargetMinutes: Minutes.nullable().optional().describe('How old the restored data may be.'),
  rtoTargetMinutes: Minutes.nullable().optional().describe('How long it may take until everything works.'),
  status: z.enum(PLAN_STATUSES).optional().describe('Default draft. An archived plan is not executed.'),
  rehearsalSchedule: Schedule.nullable()
    .optional()
    .describe('When rehearsals begin automatically. Default time zone: UTC.'),
};

export const NewRecoveryPlan = z.strictObject({
  orgId: Id.optional().describe('Default: the organization of the caller.'),
  name: nfcText(200),
  ...planFields,
});
export type NewRecoveryPlan = z.infer<typeof NewRecoveryPlan>;

export const RecoveryPlanPatch = z.strictObject({ name: nfcText(200), ...planFields }).partial();
export type RecoveryPlanPatch = z.infer<typeof RecoveryPlanPatch>;

export const RecoveryPlanQuery = PageQuery.extend({
  orgId: Id.optional(),
  status: z.enum(PLAN_STATUSES).optional(),
});
export type RecoveryPlanQuery = z.infer<typeof RecoveryPlanQuery>;

const groupFields = {
  name: nfcText(200),
  sequence: z
    .number()
    .int()
    .min(0)
    .max(10_000)
    .describe(
      'A group begins when all groups of lower numbers are completed. Groups with equal numbers run together.',
    ),
  dependsOnGroupId: Id.nullable()
    .optional()
    .describe('It also waits for this group of the plan, whose sequence must not be higher.'),
  devices: z.array(RecoveryDevice).min(1).max(DEVICES_MAX).describe('They are restored at the same time.'),
  estimatedDurationMinutes: Minutes.nullable().optional(),
};

export const NewRecoveryGroup = z.strictObject(groupFields);
export type NewRecoveryGroup = z.infer<typeof NewRecoveryGroup>;

export const RecoveryGroupPatch = NewRecoveryGroup.partial().extend({
  repinScripts: z
    .array(Id)
    .min(1)
    .max(DEVICES_MAX * CHECKS_MAX)
    .optional()
    .describe(
      'Scripts of checks of the group whose newest versions are taken. All other scripts that the group named before keep their versions, also when `devices` names them again. Needs scripts:execute.',
    ),
});
export type RecoveryGroupPatch = z.infer<typeof RecoveryGroupPatch>;

export const GroupParams = z.object({ id: Id, groupId: Id });

const PinnedScript = z
  .object({
    scriptId: z.uuid(),
    scriptName: z
      .string()
      .nullable()
      .describe('The name that it had when its version was kept. Null: there is no version and no script.'),
    scriptSha256: z
      .string()
      .nullable()
      .describe(
        'For the version that executions run: of its language, timeoutSeconds and content in UTF-8, joined by line feeds. Null: the group was saved before versions were kept; until it is saved again, each execution runs the version of the moment at which it begins.',
      ),
    scriptHasChanged: z
      .boolean()
      .nullable()
      .describe(
        'Since its version was kept. `repinScripts` takes the newest one. Null: there is no version yet, or the script was deleted, and its version still runs.',
      ),
  })
  .meta({ id: 'RecoveryScript' });

export const RecoveryGroup = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    planId: z.uuid(),
    name: z.string(),
    sequence: z.number().int(),
    dependsOnGroupId: z.uuid().nullable(),
    devices: z.array(RecoveryDevice),
    scripts: z.array(PinnedScript).describe('The scripts that the checks name, each once.'),
    estimatedDurationMinutes: z.number().int().nullable(),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'RecoveryGroup' });

export const RecoveryPlan = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    name: z.string(),
    description: z.string().nullable(),
    rpoTargetMinutes: z.number().int().nullable(),
    rtoTargetMinutes: z.number().int().nullable(),
    status: z.enum(PLAN_STATUSES),
    rehearsalSchedule: BackupSchedule.nullable(),
    nextRehearsalAt: Timestamp.nullable(),
    groupCount: z.number().int(),
    deviceCount: z.number().int(),
    failedOverDevices: z.number().int().describe('How many sources are currently replaced by their targets.'),
    lastExecution: z
      .object({
        id: z.uuid(),
        executionType: z.enum(EXECUTION_TYPES),
        status: z.enum(EXECUTION_STATUSES),
        createdAt: Timestamp,
        finishedAt: Timestamp.nullable(),
      })
      .nullable(),
    lastRehearsal: z
      .object({
        id: z.uuid(),
        status: z.enum(EXECUTION_STATUSES),
        finishedAt: Timestamp,
        rtoSeconds: z.number().nullable(),
        rpoSeconds: z.number().nullable(),
        rtoMet: z.boolean().nullable(),
        rpoMet: z.boolean().nullable(),
      })
      .nullable()
      .describe('The newest one that has ended, and its result.'),
    createdBy: z.uuid().nullable(),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'RecoveryPlan' });

export const RecoveryPlanDetail = RecoveryPlan.extend({
  groups: z.array(RecoveryGroup).describe('By sequence.'),
  failedOver: z
    .array(
      z.object({
        deviceId: z.uuid(),
        deviceName: z.string(),
        targetDeviceId: z.uuid(),
        targetDeviceName: z.string(),
        restoreType: z.enum(['files', 'vm', 'instant']),
        machine: z.string().nullable().describe('The guest of the device, if it is one.'),
        groupId: z.uuid(),
        executionId: z.uuid(),
        since: Timestamp,
      }),
    )
    .describe('Sources that are replaced by their targets until a failback.'),
}).meta({ id: 'RecoveryPlanDetail' });

const Overwrite = z.enum(['never', 'ifNewer', 'always']);

const GuestPlace = z.object({ image: ImageDetails, imagePath: z.string() });
type GuestPlace = z.infer<typeof GuestPlace>;

/** Why an action cannot be started, determined when the execution began. */
const Refusal = z.object({ code: z.string(), message: z.string() }).nullable().default(null);

/** The stored input of an action: everything is decided when the execution begins. */
export const ActionSpec = z.discriminatedUnion('does', [
  z.object({
    does: z.literal('files'),
    /** Null: there was no snapshot, or `madeBy` makes it. */
    snapshotId: z.uuid().nullable(),
    /** The backup of this execution whose snapshot is restored. */
    madeBy: z.uuid().nullable(),
    selectedPaths: z.array(z.string()).nullable(),
    /** Null: a new folder of the agent. */
    targetPath: z.string().nullable(),
    fromPath: z.string().nullable(),
    overwrite: Overwrite,
    /** A path of a backup that may be missing on the device: a snapshot without it is no failure. */
    isOptional: z.boolean(),
    refusal: Refusal,
  }),
  z.object({
    does: z.literal('machine'),
    kind: z.enum(['as_vm', 'instant_boot']),
    snapshotId: z.uuid().nullable(),
    /** The name in the plan. */
    machine: z.string().nullable().default(null),
    /**
     * For a snapshot of guests: the selected one. Null: the snapshot is of one machine, which its device has
     * described.
     */
    machineId: z.string().nullable().default(null),
    /** The description of that guest from the store, read before the action is assigned. */
    guest: GuestPlace.nullable().default(null),
    refusal: Refusal,
    vmName: z.string(),
    memoryMb: z.number().nullable(),
    cpuCount: z.number().nullable(),
    network: VmNetwork,
  }),
  z.object({ does: z.literal('backup'), configId: z.uuid().nullable(), paths: z.array(z.string()) }),
  z.object({ does: z.literal('save'), configId: z.uuid().nullable(), vmRestoreId: z.uuid().nullable() }),
  z.object({
    does: z.literal('check'),
    check: RecoveryCheck,
    /** Reached through its host, at a port that is known once it runs. */
    isOfMachine: z.boolean(),
    /** For a script: the version to run. Null: the execution began before versions were stored. */
    scriptSha256: z.string().nullable().default(null),
  }),
  z.object({ does: z.literal('discard') }),
]);
export type ActionSpec = z.infer<typeof ActionSpec>;

/** Results of a successful action that later actions need. */
export const ActionResult = z.object({
  folder: z.string().nullable().optional(),
  forwards: z.array(z.object({ hostPort: z.number(), guestPort: z.number() })).optional(),
  snapshotId: z.uuid().optional(),
  /** The snapshot does not contain the requested data. */
  isMissing: z.boolean().optional(),
});
export type ActionResult = z.infer<typeof ActionResult>;
