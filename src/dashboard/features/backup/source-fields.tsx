import {
  Radio,
  Stack,
  Autocomplete,
  Select,
  Textarea,
  Checkbox,
  Text,
  TextInput,
  NumberInput,
} from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { FC } from 'react';
import { apiQuery, type BackupDatabaseInstance } from '../../api/index.ts';
import {
  type SourceFieldProps,
  type Sources,
  BETWEEN,
  usualBetween,
  type Engine,
  KIND_NAMES,
  type Between,
  type SqlForm,
  type ChainForm,
} from './config-form.ts';
import { ENGINE_NAMES } from './texts.ts';

interface Kind {
  value: Sources['kind'];
  description: string;
  Fields: FC<SourceFieldProps>;
}

const KINDS: readonly Kind[] = [
  { value: 'files', description: 'Folders of the devices, file by file.', Fields: FileFields },
  {
    value: 'image',
    description: 'The machine as a whole, to start it again on other hardware. Of devices with Linux.',
    Fields: DiskFields,
  },
  {
    value: 'database',
    description: 'The server of a database, as its own programs back it up. Of devices with Linux.',
    Fields: DatabaseFields,
  },
  {
    value: 'mssql',
    description:
      'One database of SQL Server: full backups, and logs or differential ones between them. Of devices with Windows.',
    Fields: SqlServerFields,
  },
  {
    value: 'hyperv',
    description: 'Virtual machines with their disks. Of devices that are hosts of Hyper-V.',
    Fields: MachineFields,
  },
  {
    value: 'kvm',
    description: 'Virtual machines with their disks. Of devices with Linux that are hosts of libvirt.',
    Fields: MachineFields,
  },
];

/** The fields for the sources of a backup. Those of a kind that is not chosen keep their text. */
export function SourceFields(props: Omit<SourceFieldProps, 'faultOf'>) {
  const { form, set, faults } = props;
  const faultOf = (name: string) =>
    Object.entries(faults).find(
      ([path]) => path === `sources.${name}` || path.startsWith(`sources.${name}.`),
    )?.[1];
  const chosen = KINDS.find(({ value }) => value === form.kind);
  return (
    <Stack gap="sm">
      <Radio.Group
        label="What is backed up"
        value={form.kind}
        onChange={(value) => set({ kind: KINDS.find((kind) => kind.value === value)?.value ?? form.kind })}
        error={faults['sources'] ?? faults['sources.kind']}
      >
        <Stack gap="xs" mt="xs">
          {KINDS.map(({ value, description }) => (
            <Radio key={value} value={value} label={KIND_NAMES[value]} description={description} />
          ))}
        </Stack>
      </Radio.Group>
      {chosen !== undefined && <chosen.Fields {...props} faultOf={faultOf} />}
    </Stack>
  );
}

function DiskFields({ form, set, faultOf }: SourceFieldProps) {
  return (
    <>
      <Radio.Group
        label="Which disks"
        value={form.disks}
        onChange={(value) => set({ disks: value === 'named' ? 'named' : 'all' })}
      >
        <Stack gap="xs" mt="xs">
          <Radio
            value="all"
            label="Every fixed disk"
            description="Also those that a device gets later. Disks that can be pulled out are left out."
          />
          <Radio value="named" label="Those that are named" />
        </Stack>
      </Radio.Group>
      {form.disks === 'named' ? (
        <Textarea
          label="Disks"
          required
          description="Names on the device, one a line, such as sda, or paths of files that each hold a disk."
          autosize
          minRows={2}
          value={form.diskNames}
          onChange={(event) => set({ diskNames: event.currentTarget.value })}
          error={faultOf('disks')}
        />
      ) : (
        <Textarea
          label="Disks that are left out"
          description="Names on the device, one a line, such as sdb."
          autosize
          minRows={2}
          value={form.excludeDisks}
          onChange={(event) => set({ excludeDisks: event.currentTarget.value })}
          error={faultOf('excludeDisks')}
        />
      )}
    </>
  );
}

/** Machines of a hypervisor. */
function MachineFields({ form, set, faultOf }: SourceFieldProps) {
  return (
    <>
      <Radio.Group
        label="Which machines"
        value={form.machines}
        onChange={(value) => set({ machines: value === 'named' ? 'named' : 'all' })}
      >
        <Stack gap="xs" mt="xs">
          <Radio value="all" label="All of them" description="Also those that a host gets later." />
          <Radio value="named" label="Those that are named" />
        </Stack>
      </Radio.Group>
      {form.machines === 'named' && (
        <Textarea
          label="Machines"
          required
          description="Names or ids, one a line, as the page “Machines” lists them."
          autosize
          minRows={2}
          value={form.machineNames}
          onChange={(event) => set({ machineNames: event.currentTarget.value })}
          error={faultOf('machines')}
        />
      )}
      <Radio.Group
        label="In which state"
        value={form.consistency}
        onChange={(value) => set({ consistency: value === 'crash' ? 'crash' : 'application' })}
        error={faultOf('consistency')}
      >
        <Stack gap="xs" mt="xs">
          <Radio
            value="application"
            label="Of the applications"
            description="The programs in a machine are asked to write what they hold. Where one cannot be asked, the backup is partial."
          />
          <Radio value="crash" label="As after a power cut" description="Nothing in the machine is asked." />
        </Stack>
      </Radio.Group>
    </>
  );
}

const NONE: never[] = [];

/** The database servers of an engine that devices of an organization have named, to choose from. */
function useInstances(
  orgId: string | undefined,
  engine: BackupDatabaseInstance['engine'],
): readonly BackupDatabaseInstance[] {
  const found = useQuery({
    ...apiQuery('GET /backup/databases/instances', { query: { orgId, engine, limit: '100' } }),
    enabled: orgId !== undefined,
  });
  return found.data?.data ?? NONE;
}

const BETWEEN_TEXTS: Readonly<Record<Between, { label: string; description: string }>> = {
  log: {
    label: 'Logs',
    description: 'Small. Every point in time between two backups can be restored.',
  },
  differential: {
    label: 'What has changed since the full one',
    description: 'The state of each backup can be restored, and none between them.',
  },
  none: { label: 'Nothing', description: 'Every backup is a full one.' },
};

/** When a backup of a database is a full one, and what the others are. */
function ChainFields({
  chain: { fullEveryDays, between },
  set,
  offered,
  faultOf,
}: {
  chain: ChainForm;
  set: (change: Partial<ChainForm>) => void;
  /** The types of backups between two full ones. */
  offered: readonly Between[];
  faultOf: (name: string) => string | undefined;
}) {
  return (
    <>
      <NumberInput
        label="Days between full backups"
        description="A backup is a full one where the last full one is older."
        required
        allowDecimal={false}
        value={fullEveryDays ?? ''}
        onChange={(value) => set({ fullEveryDays: typeof value === 'number' ? value : undefined })}
        error={faultOf('fullEveryDays')}
      />
      <Radio.Group
        label="Backups between the full ones"
        value={between}
        onChange={(value) => set({ between: offered.find((one) => one === value) ?? between })}
        error={faultOf('between')}
      >
        <Stack gap="xs" mt="xs">
          {offered.map((value) => (
            <Radio key={value} value={value} {...BETWEEN_TEXTS[value]} />
          ))}
        </Stack>
      </Radio.Group>
    </>
  );
}

const SQL_SERVER_BETWEEN: readonly Between[] = ['log', 'differential', 'none'];

/** One database of SQL Server. */
function SqlServerFields({ form, set, faultOf }: SourceFieldProps) {
  const { sql } = form;
  const change = (next: Partial<SqlForm>) => set({ sql: { ...sql, ...next } });
  const found = useInstances(form.orgId, 'mssql');
  const databases = found
    .filter(({ instance }) => instance === sql.instance)
    .flatMap((each) => each.databases.map(({ name }) => name));
  return (
    <>
      <Autocomplete
        label="Instance"
        required
        description="As the page “Databases” lists it. The default instance is called MSSQLSERVER."
        data={[...new Set(found.map(({ instance }) => instance))]}
        value={sql.instance}
        onChange={(instance) => change({ instance })}
        error={faultOf('instance')}
      />
      <Autocomplete
        label="Database"
        required
        description="Each database has a chain of its own, and so a configuration of its own."
        data={[...new Set(databases)]}
        value={sql.database}
        onChange={(database) => change({ database })}
        error={faultOf('database')}
      />
      <TextInput
        label="Folder for backups on their way"
        required
        description="A folder of the device which the service of SQL Server writes to and the agent reads. It has to hold one whole backup."
        placeholder={String.raw`D:\Spool`}
        value={sql.spoolPath}
        onChange={(event) => change({ spoolPath: event.currentTarget.value })}
        error={faultOf('spoolPath')}
      />
      <ChainFields chain={sql} set={change} offered={SQL_SERVER_BETWEEN} faultOf={faultOf} />
      {sql.between === 'log' && (
        <Text size="sm">Logs need the recovery model “full” or “bulk-logged” of the database.</Text>
      )}
    </>
  );
}

const SYSTEMS = [
  { name: 'linux', label: 'Paths on Linux' },
  { name: 'macos', label: 'Paths on macOS' },
  { name: 'windows', label: 'Paths on Windows' },
] as const;

function FileFields({ form, set, faults, faultOf }: SourceFieldProps) {
  return (
    <>
      {SYSTEMS.map(({ name, label }) => (
        <Textarea
          key={name}
          label={label}
          description="One a line. Empty: nothing of such devices."
          autosize
          minRows={2}
          value={form[name]}
          onChange={(event) => set({ [name]: event.currentTarget.value })}
          // That no system has a path is said at the first one.
          error={faultOf(`paths.${name}`) ?? (name === 'linux' ? faults['sources.paths'] : undefined)}
        />
      ))}
      <Textarea
        label="Left out"
        description="Patterns of files and folders, one a line, such as *.tmp or /var/cache."
        autosize
        minRows={2}
        value={form.excludes}
        onChange={(event) => set({ excludes: event.currentTarget.value })}
        error={faultOf('excludes')}
      />
      <Checkbox
        label="Stay on one file system"
        description="File systems that are mounted below a path are left out."
        checked={form.oneFileSystem}
        onChange={(event) => set({ oneFileSystem: event.currentTarget.checked })}
        error={faultOf('oneFileSystem')}
      />
    </>
  );
}

const ENGINES: readonly { value: Engine; label: string }[] = [
  { value: 'postgresql', label: ENGINE_NAMES.postgresql },
  { value: 'mariadb', label: ENGINE_NAMES.mariadb },
];

function DatabaseFields({ form, set, faultOf }: SourceFieldProps) {
  const { orgId, engine } = form;
  const names = new Set(useInstances(orgId, engine).map(({ instance }) => instance));
  return (
    <>
      <Select
        label="Engine"
        required
        allowDeselect={false}
        data={ENGINES}
        value={engine}
        onChange={(value) => {
          const next = ENGINES.find((one) => one.value === value)?.value ?? engine;
          set({ engine: next, between: usualBetween(next) });
        }}
        error={faultOf('engine')}
      />
      <Autocomplete
        label="Instance"
        description="Where the server listens on the device, as the page “Databases” lists it. Empty: the only one of the engine on each device."
        data={[...names]}
        value={form.instance}
        onChange={(instance) => set({ instance })}
        error={faultOf('instance')}
      />
      <ChainFields chain={form} set={set} offered={BETWEEN[engine]} faultOf={faultOf} />
    </>
  );
}
