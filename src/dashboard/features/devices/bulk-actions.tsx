import { Button, Menu, TagsInput, Text } from '@mantine/core';
import { IconChevronDown } from '@tabler/icons-react';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import type { DeviceSummary } from '../../../protocol/index.ts';
import { useQueryClient } from '@tanstack/react-query';
import { call, newIdempotencyKey, useApiChange, type Input, type Answer } from '../../api/index.ts';
import { useRefusal } from '../../session.ts';
import { formatCount, Modal } from '../../ui/index.ts';
import { outcomesOfCommands, type Run, startedOrRefused, type Outcome } from '../scripts/index.ts';
import { DialogForm, MaintenanceForm } from './device-dialogs.tsx';
import { RunScriptForm, BULK_DEVICES_MAX, SCRIPT_DEVICES_MAX } from './run-script-form.tsx';

const namesOf = (devices: readonly DeviceSummary[]): ReadonlyMap<string, string> =>
  new Map(devices.map((device) => [device.id, device.displayName ?? device.hostname]));

/** The devices are named in the address of the page, of which proxies read 8 KB. */
const LOG_DEVICES_MAX = 200;
/** As many as one request takes. */
const BACKUP_DEVICES_MAX = 500;

type ChangeAction = Input<'POST /devices/bulk'>['body']['action'];

const TITLES = {
  maintenance: 'Start maintenance',
  endMaintenance: 'End maintenance',
  addTags: 'Add tags',
  removeTags: 'Remove tags',
  script: 'Run a script',
  inventory: 'Refresh the inventory',
  reboot: 'Restart machines',
  backUp: 'Back up now',
  autoUpdateOn: 'Turn automatic updates on',
  autoUpdateOff: 'Turn automatic updates off',
} as const;
type Kind = keyof typeof TITLES;

const EXPLAINED: Partial<Record<Kind, string>> = {
  endMaintenance: 'The devices show their usual state again, and raise alerts again.',
  inventory: 'Each device sends its hardware and software anew. One that is offline does so when it is back.',
  reboot:
    'The machines restart at once. People who work at them lose what is not saved. A device that is offline restarts when it is back, within a day.',
  backUp:
    'Each device is backed up by the default configuration of its organization, else its only one. One that is offline begins when it is back.',
  autoUpdateOn: 'The agents install offered releases by themselves.',
  autoUpdateOff: 'The agents install no releases until this is turned on again.',
};

/** The actions on all selected devices at once. Each device has an outcome of its own. */
export function BulkActions({
  devices,
  onRun,
}: {
  devices: readonly DeviceSummary[];
  onRun: (run: Run) => void;
}) {
  const [kind, setKind] = useState<Kind>();
  const write = useRefusal('devices:write');
  const execute = useRefusal('devices:execute');
  const runScripts = useRefusal('scripts:execute');
  const tooMany = (max: number) =>
    devices.length > max ? `At most ${formatCount(max)} devices at once.` : undefined;
  const bulk = tooMany(BULK_DEVICES_MAX);
  const mayBackUp = useRefusal('backup:execute') === undefined;
  const navigate = useNavigate();
  const readLogs = () =>
    void navigate({ to: '/event-logs', search: { devices: devices.map(({ id }) => id) } });
  const item = (label: string, refusal: string | undefined, onClick: () => void) => (
    <Menu.Item
      key={label}
      closeMenuOnClick={refusal === undefined}
      aria-disabled={refusal !== undefined}
      {...(refusal === undefined ? { onClick } : { c: 'dimmed' })}
    >
      {label}
      {refusal !== undefined && <Text size="xs">{refusal}</Text>}
    </Menu.Item>
  );
  const entry = (each: Kind, refusal: string | undefined) => item(TITLES[each], refusal, () => setKind(each));
  const close = () => setKind(undefined);
  return (
    <>
      <Menu position="bottom-start" width={260}>
        <Menu.Target>
          <Button rightSection={<IconChevronDown size={14} aria-hidden />}>
            Actions on {formatCount(devices.length)} {devices.length === 1 ? 'device' : 'devices'}
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {(['maintenance', 'endMaintenance', 'addTags', 'removeTags'] as const).map((each) =>
            entry(each, write ?? bulk),
          )}
          <Menu.Divider />
          {entry('script', runScripts ?? tooMany(SCRIPT_DEVICES_MAX))}
          {entry('inventory', execute ?? bulk)}
          {entry('reboot', execute ?? bulk)}
          {item('Read event logs', tooMany(LOG_DEVICES_MAX), readLogs)}
          {mayBackUp && entry('backUp', tooMany(BACKUP_DEVICES_MAX))}
          <Menu.Divider />
          {entry('autoUpdateOn', write ?? bulk)}
          {entry('autoUpdateOff', write ?? bulk)}
        </Menu.Dropdown>
      </Menu>
      <Modal
        opened={kind !== undefined}
        onClose={close}
        title={
          kind === undefined
            ? ''
            : `${TITLES[kind]} · ${formatCount(devices.length)} ${devices.length === 1 ? 'device' : 'devices'}`
        }
        size={kind === 'script' ? 'lg' : 'md'}
        centered
      >
        {kind !== undefined && <BulkForm kind={kind} devices={devices} onRun={onRun} onClose={close} />}
      </Modal>
    </>
  );
}

function BulkForm({
  kind,
  devices,
  onRun,
  onClose,
}: {
  kind: Kind;
  devices: readonly DeviceSummary[];
  onRun: (run: Run) => void;
  onClose: () => void;
}) {
  // The devices are those that were chosen when the dialog was opened, whatever the table shows meanwhile.
  const [chosen] = useState(devices);
  const [tags, setTags] = useState<string[]>([]);
  const [key] = useState(newIdempotencyKey);
  const bulk = useApiChange('POST /devices/bulk', { refreshes: ['GET /devices', 'GET /devices/{id}'] });
  const queries = useQueryClient();
  const deviceIds = chosen.map(({ id }) => id);
  const names = namesOf(chosen);
  const title = TITLES[kind];
  const change = async (action: ChangeAction) =>
    onRun({
      title,
      outcomes: outcomesOfChange(await bulk.mutateAsync({ body: { deviceIds, action } }), names),
    });
  const send = async (type: 'agent.reboot' | 'agent.refresh-inventory') => {
    const body = { deviceIds, type };
    const started = await startedOrRefused(
      call('POST /devices/bulk/commands', { body }, { idempotencyKey: key }),
    );
    onRun({ title, outcomes: outcomesOfCommands(started, names) });
  };
  const backUp = async () => {
    const started = await call('POST /backup/jobs/bulk', { body: { deviceIds } }, { idempotencyKey: key });
    for (const read of ['GET /backup/jobs', 'GET /backup/status/{deviceId}'] as const) {
      void queries.invalidateQueries({ queryKey: [read] });
    }
    onRun({ title, outcomes: outcomesOfBackups(started, names) });
  };
  switch (kind) {
    case 'maintenance':
      return (
        <MaintenanceForm
          onClose={onClose}
          run={(until) => change({ type: 'maintenance', enabled: true, until })}
        />
      );
    case 'addTags':
    case 'removeTags':
      return (
        <DialogForm
          confirm={title}
          isReady={tags.length > 0}
          onClose={onClose}
          run={() => change({ type: 'tags', ...(kind === 'addTags' ? { add: tags } : { remove: tags }) })}
        >
          <TagsInput
            label="Tags"
            description="Enter or a comma ends a tag. Other tags of the devices stay."
            value={tags}
            onChange={setTags}
            data-autofocus
          />
        </DialogForm>
      );
    case 'script': {
      const organizations = new Set(chosen.map(({ orgId }) => orgId));
      const [only] = organizations;
      return (
        <RunScriptForm
          deviceIds={deviceIds}
          systems={[...new Set(chosen.map(({ osType }) => osType))]}
          orgId={organizations.size === 1 ? only : undefined}
          onClose={onClose}
          onStarted={(started) =>
            onRun({ title, runId: started.executionId, outcomes: outcomesOfCommands(started, names) })
          }
        />
      );
    }
    case 'endMaintenance':
    case 'inventory':
    case 'reboot':
    case 'backUp':
    case 'autoUpdateOn':
    case 'autoUpdateOff':
      return (
        <DialogForm
          confirm={title}
          onClose={onClose}
          {...(kind === 'reboot' ? { color: 'red' } : {})}
          run={() => {
            if (kind === 'inventory') return send('agent.refresh-inventory');
            if (kind === 'reboot') return send('agent.reboot');
            if (kind === 'backUp') return backUp();
            if (kind === 'endMaintenance') return change({ type: 'maintenance', enabled: false });
            return change({ type: 'autoUpdate', enabled: kind === 'autoUpdateOn' });
          }}
        >
          <Text size="sm">{EXPLAINED[kind]}</Text>
        </DialogForm>
      );
    default:
      return kind satisfies never;
  }
}

/** The outcomes of an action that is done at once. */
function outcomesOfChange(
  { results }: Answer<'POST /devices/bulk'>,
  names: ReadonlyMap<string, string>,
): Outcome[] {
  return results.map(({ deviceId, ok, message }) => ({
    deviceId,
    name: names.get(deviceId) ?? deviceId,
    commandId: undefined,
    refusal: ok ? undefined : (message ?? 'It was refused.'),
  }));
}

/** The refused ones first. */
function outcomesOfBackups(
  { jobs, refused }: Answer<'POST /backup/jobs/bulk'>,
  names: ReadonlyMap<string, string>,
): Outcome[] {
  const outcomeOf = (deviceId: string, refusal: string | undefined): Outcome => ({
    deviceId,
    name: names.get(deviceId) ?? deviceId,
    commandId: undefined,
    refusal,
  });
  return [
    ...refused.map(({ deviceId, message }) => outcomeOf(deviceId, message)),
    ...jobs.map(({ id, deviceId }) => ({ ...outcomeOf(deviceId, undefined), backupJobId: id })),
  ];
}
