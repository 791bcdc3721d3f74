import {
  ActionIcon,
  Button,
  Checkbox,
  Group,
  Menu,
  NumberInput,
  Paper,
  Select,
  Stack,
  Text,
  TextInput,
} from '@mantine/core';
import { IconPlus, IconTrash } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { apiQuery, type RecoveryCheck } from '../../../api/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { chosenFault } from './chosen-fault.ts';

const CHECKS_MAX = 10;
const NEW: readonly { label: string; check: RecoveryCheck }[] = [
  { label: 'A port answers', check: { type: 'tcp', port: 443, timeoutSeconds: 120 } },
  {
    label: 'A web page answers',
    check: { type: 'http', port: 80, path: '/', secure: false, timeoutSeconds: 120 },
  },
];

/** How it is found out that a device works, one check after another. */
export function CheckFields({
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
