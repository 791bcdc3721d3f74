import {
  Group,
  NumberInput,
  Select,
  SimpleGrid,
  Textarea,
  TextInput,
  ActionIcon,
  Button,
  Checkbox,
  Menu,
  Paper,
  Stack,
  Text,
} from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { apiQuery, type RecoveryDevice, type RecoveryCheck } from '../../api/index.ts';
import { useRefusal } from '../../session.ts';
import { DeviceSelect } from '../backup/index.ts';
import { RESTORE_NAMES } from './recovery-frame.tsx';
import { IconPlus, IconTrash } from '@tabler/icons-react';

/** The part of a plan about one device, while it is being edited. */
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

/** Fields that both types have keep their values. */
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

/** Replaces the rule for ids, which says little about a field in which nothing was chosen. */
const chosenFault = (id: string, fault: string | undefined): string | undefined =>
  fault === undefined || id !== '' ? fault : 'Choose one.';

const CHECKS_MAX = 10;
const NEW: readonly { label: string; check: RecoveryCheck }[] = [
  { label: 'A port answers', check: { type: 'tcp', port: 443, timeoutSeconds: 120 } },
  {
    label: 'A web page answers',
    check: { type: 'http', port: 80, path: '/', secure: false, timeoutSeconds: 120 },
  },
];

/** How it is found out that a device works, one check after another. */
function CheckFields({
  checks,
  faults,
  onChange,
}: {
  checks: readonly RecoveryCheck[];
  /** The rules that fields break, by their paths within the device. */
  faults: Record<string, string>;
  onChange: (checks: RecoveryCheck[]) => void;
}) {
  const refusal = useRefusal('scripts:execute');
  const change = (at: number, check: RecoveryCheck) =>
    onChange(checks.map((one, index) => (index === at ? check : one)));
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <Text size="sm" fw={500}>
          Checks
        </Text>
        <Menu withinPortal position="bottom-end">
          <Menu.Target>
            <Button
              variant="default"
              disabled={checks.length >= CHECKS_MAX}
              leftSection={<IconPlus size={14} aria-hidden />}
            >
              Add a check
            </Button>
          </Menu.Target>
          <Menu.Dropdown>
            {NEW.map(({ label, check }) => (
              <Menu.Item key={label} onClick={() => onChange([...checks, check])}>
                {label}
              </Menu.Item>
            ))}
            <Menu.Item
              disabled={refusal !== undefined}
              onClick={() => onChange([...checks, { type: 'script', scriptId: '' }])}
            >
              A script ends without a fault
              {refusal !== undefined && <Text size="xs">{refusal}</Text>}
            </Menu.Item>
          </Menu.Dropdown>
        </Menu>
      </Group>
      {faults['checks'] !== undefined && (
        <Text size="xs" c="var(--mantine-color-error)">
          {faults['checks']}
        </Text>
      )}
      {checks.length === 0 && (
        <Text size="sm" c="dimmed">
          Without a check, it counts as working as soon as it is restored.
        </Text>
      )}
      {checks.map((check, at) => (
        // Checks have no id, and stay in their order.
        // oxlint-disable-next-line react/no-array-index-key
        <Paper key={at} withBorder p="xs">
          <Group align="flex-start" wrap="nowrap" gap="xs">
            <Group align="flex-start" gap="xs" flex={1}>
              <Check
                check={check}
                fault={(field) => faults[`checks.${at}.${field}`]}
                onChange={(next) => change(at, next)}
              />
            </Group>
            <ActionIcon
              mt={22}
              variant="subtle"
              color="gray"
              aria-label={`Remove check ${at + 1}`}
              onClick={() => onChange(checks.filter((_, index) => index !== at))}
            >
              <IconTrash size={16} />
            </ActionIcon>
          </Group>
        </Paper>
      ))}
    </Stack>
  );
}

interface CheckProps<C> {
  check: C;
  fault: (field: string) => string | undefined;
  onChange: (check: C) => void;
}

function Check({ check, fault, onChange }: CheckProps<RecoveryCheck>) {
  if (check.type === 'script') return <ScriptCheck check={check} fault={fault} onChange={onChange} />;
  const { host: _h, ...withoutHost } = check;
  return (
    <>
      <NumberInput
        w={90}
        label={check.type === 'tcp' ? 'Port' : 'Web port'}
        min={1}
        max={65_535}
        allowDecimal={false}
        value={check.port}
        onChange={(value) => onChange({ ...check, port: typeof value === 'number' ? value : 0 })}
        error={fault('port')}
      />
      <TextInput
        w={170}
        label="Host"
        placeholder="The device itself"
        value={check.host ?? ''}
        onChange={(event) => {
          const { value } = event.currentTarget;
          onChange(value === '' ? withoutHost : { ...check, host: value });
        }}
        error={fault('host')}
      />
      {check.type === 'http' && (
        <>
          <TextInput
            w={150}
            label="Path"
            value={check.path}
            onChange={(event) => onChange({ ...check, path: event.currentTarget.value })}
            error={fault('path')}
          />
          <Checkbox
            mt={28}
            label="TLS"
            checked={check.secure}
            onChange={(event) => onChange({ ...check, secure: event.currentTarget.checked })}
          />
        </>
      )}
      <NumberInput
        w={120}
        label="Passes within"
        suffix=" s"
        min={5}
        max={3600}
        allowDecimal={false}
        value={check.timeoutSeconds}
        onChange={(value) => onChange({ ...check, timeoutSeconds: typeof value === 'number' ? value : 0 })}
        error={fault('timeoutSeconds')}
      />
    </>
  );
}

function ScriptCheck({ check, fault, onChange }: CheckProps<Extract<RecoveryCheck, { type: 'script' }>>) {
  const refusal = useRefusal('scripts:read');
  const scripts = useQuery({
    ...apiQuery('GET /scripts', { query: { limit: '100' } }),
    staleTime: 60_000,
    enabled: refusal === undefined,
  });
  return (
    <Select
      w={300}
      label="Script that ends with exit code 0"
      required
      searchable
      data={(scripts.data?.data ?? []).map(({ id, name }) => ({ value: id, label: name }))}
      value={check.scriptId === '' ? null : check.scriptId}
      onChange={(value) => onChange({ ...check, scriptId: value ?? '' })}
      error={chosenFault(check.scriptId, fault('scriptId')) ?? refusal ?? scripts.error?.message}
    />
  );
}
