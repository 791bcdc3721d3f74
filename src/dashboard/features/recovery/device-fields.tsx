import { Group, NumberInput, Select, SimpleGrid, Textarea, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { apiQuery, type RecoveryDevice } from '../../../api/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { DeviceSelect } from '../../backup/index.ts';
import { RESTORE_NAMES } from '../parts/recovery-words.tsx';
import { CheckFields } from './check-fields.tsx';
import { chosenFault } from './chosen-fault.ts';

/** What a plan says of a device, while it is being written. */
export interface DeviceForm extends RecoveryDevice {
  /** It stays while others come and go. */
  key: number;
}

type Restore = RecoveryDevice['restore'];
const TYPES = (['files', 'vm', 'instant'] as const).map((value) => ({ value, label: RESTORE_NAMES[value] }));
const RULES = [
  { value: 'always', label: 'Replace every file' },
  { value: 'ifNewer', label: 'Replace older files' },
  { value: 'never', label: 'Keep existing files' },
] as const;

interface Props {
  orgId: string;
  device: DeviceForm;
  /** The rules that fields break, by their paths within the device. */
  faults: Record<string, string>;
  onChange: (device: DeviceForm) => void;
}

export function DeviceFields({ orgId, device, faults, onChange }: Props) {
  const { restore } = device;
  const refusal = useRefusal('backup:read');
  const configs = useQuery({
    ...apiQuery('GET /backup/configs', { query: { orgId, limit: '100' } }),
    staleTime: 60_000,
    enabled: refusal === undefined,
  });
  const setRestore = (next: Restore) => onChange({ ...device, restore: next });
  return (
    <>
      <SimpleGrid cols={{ base: 1, sm: 2 }}>
        <DeviceSelect
          label="Device"
          description="Whose backups are restored."
          orgId={orgId}
          value={device.deviceId === '' ? undefined : device.deviceId}
          onChange={(id) => onChange({ ...device, deviceId: id ?? '' })}
          error={chosenFault(device.deviceId, faults['deviceId'])}
        />
        <DeviceSelect
          label={restore.type === 'files' ? 'Restored to' : 'Host of the machine'}
          description="Empty: the device itself."
          orgId={orgId}
          value={device.targetDeviceId}
          onChange={(id) => {
            const { targetDeviceId: _, ...rest } = device;
            onChange(id === undefined ? rest : { ...rest, targetDeviceId: id });
          }}
          error={faults['targetDeviceId']}
        />
        <Select
          label="Restored as"
          allowDeselect={false}
          data={TYPES}
          value={restore.type}
          onChange={(value) => setRestore(ofType(TYPES.find((one) => one.value === value)?.value, restore))}
          error={faults['restore.type']}
        />
        <Select
          label="Backup configuration"
          disabled={refusal !== undefined}
          {...(refusal === undefined ? {} : { description: refusal })}
          placeholder="Any: the newest snapshot"
          clearable
          data={(configs.data?.data ?? []).map(({ id, name }) => ({ value: id, label: name }))}
          value={restore.configId ?? null}
          onChange={(value) => {
            const { configId: _, ...rest } = restore;
            setRestore(value === null ? rest : { ...rest, configId: value });
          }}
          error={faults['restore.configId']}
        />
      </SimpleGrid>
      {restore.type === 'files' ? (
        <FileFields restore={restore} faults={faults} onChange={setRestore} />
      ) : (
        <MachineFields restore={restore} faults={faults} onChange={setRestore} />
      )}
      <CheckFields
        checks={device.checks}
        faults={faults}
        onChange={(checks) => onChange({ ...device, checks })}
      />
    </>
  );
}

/** What both types have is kept. */
function ofType(type: Restore['type'] | undefined, before: Restore): Restore {
  const { configId } = before;
  const common = configId === undefined ? {} : { configId };
  if (type === undefined || type === before.type) return before;
  if (type === 'files') return { type, overwrite: 'always', ...common };
  return before.type === 'files' ? { type, ...common } : { ...before, type };
}

interface PartProps<R> {
  restore: R;
  faults: Record<string, string>;
  onChange: (restore: R) => void;
}

function FileFields({ restore, faults, onChange }: PartProps<Extract<Restore, { type: 'files' }>>) {
  const { selectedPaths: _p, ...withoutPaths } = restore;
  const { targetPath: _t, ...withoutTarget } = restore;
  const pathFault = Object.entries(faults).find(([path]) => path.startsWith('restore.selectedPaths'))?.[1];
  return (
    <SimpleGrid cols={{ base: 1, sm: 2 }}>
      <Textarea
        label="Files and folders"
        description="One path on each line. Empty: everything."
        autosize
        minRows={2}
        maxRows={6}
        defaultValue={(restore.selectedPaths ?? []).join('\n')}
        onChange={(event) => {
          const paths = event.currentTarget.value.split('\n').filter((path) => path.trim() !== '');
          onChange(paths.length === 0 ? withoutPaths : { ...restore, selectedPaths: paths });
        }}
        error={pathFault}
      />
      <div>
        <TextInput
          label="Folder of a failover"
          description="Empty: the paths that the files had. A rehearsal uses a fresh folder."
          value={restore.targetPath ?? ''}
          onChange={(event) => {
            const { value } = event.currentTarget;
            onChange(value === '' ? withoutTarget : { ...restore, targetPath: value });
          }}
          error={faults['restore.targetPath']}
        />
        <Select
          mt="xs"
          label="Files that are there already"
          allowDeselect={false}
          data={RULES}
          value={restore.overwrite}
          onChange={(value) =>
            onChange({ ...restore, overwrite: RULES.find((rule) => rule.value === value)?.value ?? 'always' })
          }
        />
      </div>
    </SimpleGrid>
  );
}

function MachineFields({ restore, faults, onChange }: PartProps<Exclude<Restore, { type: 'files' }>>) {
  const without = (name: 'machine' | 'vmName' | 'memoryMb' | 'cpuCount'): typeof restore => {
    const rest = { ...restore };
    delete rest[name];
    return rest;
  };
  const number = (name: 'memoryMb' | 'cpuCount', label: string, min: number) => (
    <NumberInput
      label={label}
      placeholder="As in the snapshot"
      min={min}
      allowDecimal={false}
      value={restore[name] ?? ''}
      onChange={(value) =>
        onChange(typeof value === 'number' ? { ...restore, [name]: value } : without(name))
      }
      error={faults[`restore.${name}`]}
    />
  );
  const words = (name: 'machine' | 'vmName', label: string, placeholder: string) => (
    <TextInput
      label={label}
      placeholder={placeholder}
      value={restore[name] ?? ''}
      onChange={(event) => {
        const { value } = event.currentTarget;
        onChange(value === '' ? without(name) : { ...restore, [name]: value });
      }}
      error={faults[`restore.${name}`]}
    />
  );
  return (
    <Group grow align="flex-start">
      {words('machine', 'Guest of the device', 'None: the device itself')}
      {words('vmName', 'Name of the machine', 'That of the guest or device')}
      {number('memoryMb', 'Memory (MB)', 512)}
      {number('cpuCount', 'Processors', 1)}
      <TextInput
        label="Bridge of the host"
        placeholder="The network of the host"
        value={restore.network?.type === 'bridge' ? restore.network.bridge : ''}
        onChange={(event) => {
          const { network: _, ...rest } = restore;
          const bridge = event.currentTarget.value;
          onChange(bridge === '' ? rest : { ...rest, network: { type: 'bridge', bridge } });
        }}
        error={faults['restore.network.bridge'] ?? faults['restore.network']}
      />
    </Group>
  );
}
