import { Badge, Group, Stack, Text } from '@mantine/core';
import {
  useApiChange,
  type RecoveryDevice,
  type RecoveryGroup,
  type RecoveryPlanDetail,
  type RecoveryScript,
} from '../../../api/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { Action, ConfirmAction, formatDuration, PagedTable, Panel } from '../../../ui/index.ts';
import { DeviceLink } from '../../backup/index.ts';
import { RESTORE_NAMES } from '../parts/recovery-words.tsx';
import { checkText } from './check-text.ts';

/** One group of a plan: what is restored where, and how it is checked. */
export function GroupPanel({
  group,
  plan,
  refusal,
  onChange,
}: {
  group: RecoveryGroup;
  plan: RecoveryPlanDetail;
  refusal: string | undefined;
  onChange: () => void;
}) {
  const remove = useApiChange('DELETE /dr/plans/{id}/groups/{groupId}', {
    refreshes: ['GET /dr/plans/{id}', 'GET /dr/plans'],
  });
  const { id, name, sequence, dependsOnGroupId, estimatedDurationMinutes, devices } = group;
  const before = plan.groups.find((one) => one.id === dependsOnGroupId);
  const dependents = plan.groups.filter((one) => one.dependsOnGroupId === id).map((one) => one.name);
  const isNeeded =
    dependents.length === 0 ? undefined : `Other groups wait for it: ${dependents.join(', ')}.`;
  const button = { size: 'compact-xs', variant: 'subtle' } as const;
  const notes = [
    before === undefined ? undefined : `waits for ${before.name}`,
    estimatedDurationMinutes === null
      ? undefined
      : `about ${formatDuration(estimatedDurationMinutes * 60_000)}`,
  ].filter((note) => note !== undefined);
  return (
    <Panel
      title={name}
      label={`Group ${name}`}
      aside={
        <Group gap={8}>
          {notes.length > 0 && (
            <Text size="xs" c="dimmed">
              {notes.join(' · ')}
            </Text>
          )}
          <Badge variant="default" radius="sm" tt="none" fw={500}>
            Number {sequence}
          </Badge>
          <Action {...button} refusal={refusal} onClick={onChange}>
            Change
          </Action>
          <ConfirmAction
            {...button}
            refusal={refusal ?? isNeeded}
            title={`Remove “${name}”`}
            question="Its devices are not part of the plan any more. Nothing happens to the devices themselves."
            confirm="Remove"
            run={() => remove.mutateAsync({ params: { id: plan.id, groupId: id } })}
          >
            Remove
          </ConfirmAction>
        </Group>
      }
    >
      <PagedTable
        label={`Devices of the group ${name}`}
        rows={devices}
        keyOf={({ deviceId, restore }) =>
          restore.type === 'files' ? deviceId : `${deviceId} ${restore.machine ?? ''}`
        }
        columns={[
          {
            header: 'Device',
            isName: true,
            width: '20%',
            cell: ({ deviceId }) => <DeviceLink id={deviceId} />,
          },
          {
            header: 'Restored to',
            width: '20%',
            cell: ({ deviceId, targetDeviceId }) =>
              targetDeviceId === undefined || targetDeviceId === deviceId ? (
                'Itself'
              ) : (
                <DeviceLink id={targetDeviceId} />
              ),
          },
          { header: 'As', width: '30%', cell: ({ restore }) => <RestoreText restore={restore} /> },
          {
            header: 'Checks',
            cell: ({ checks }) => <Checks checks={checks} group={group} refusal={refusal} />,
          },
        ]}
      />
    </Panel>
  );
}

function RestoreText({ restore }: { restore: RecoveryDevice['restore'] }) {
  const detail =
    restore.type === 'files'
      ? (restore.selectedPaths?.join(', ') ?? 'Everything')
      : [
          restore.machine === undefined ? undefined : `its guest ${restore.machine}`,
          restore.vmName,
          restore.memoryMb === undefined ? undefined : `${restore.memoryMb} MB`,
          restore.cpuCount === undefined ? undefined : `${restore.cpuCount} processors`,
        ]
          .filter((part) => part !== undefined)
          .join(', ');
  return (
    <>
      {RESTORE_NAMES[restore.type]}
      {detail !== '' && (
        <Text size="xs" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
          {detail}
        </Text>
      )}
    </>
  );
}

function Checks({
  checks,
  group,
  refusal,
}: Pick<RecoveryDevice, 'checks'> & { group: RecoveryGroup; refusal: string | undefined }) {
  if (checks.length === 0) return 'None: it counts as working when it is restored.';
  return (
    <Stack gap={0}>
      {checks.map((check) => {
        const script =
          check.type === 'script'
            ? group.scripts.find(({ scriptId }) => scriptId === check.scriptId)
            : undefined;
        return (
          <div key={JSON.stringify(check)} style={{ overflowWrap: 'anywhere' }}>
            {checkText(check, script)}
            {script?.scriptHasChanged === true && (
              <ChangedScript script={script} group={group} refusal={refusal} />
            )}
          </div>
        );
      })}
    </Stack>
  );
}

function ChangedScript({
  script: { scriptId, scriptName },
  group: { id, planId },
  refusal,
}: {
  script: RecoveryScript;
  group: RecoveryGroup;
  refusal: string | undefined;
}) {
  const mayNotRun = useRefusal('scripts:execute');
  const take = useApiChange('PATCH /dr/plans/{id}/groups/{groupId}', { refreshes: ['GET /dr/plans/{id}'] });
  return (
    <Group gap={4}>
      <Text size="xs" fw={500}>
        The script has changed since it was chosen.
      </Text>
      <ConfirmAction
        size="compact-xs"
        variant="subtle"
        refusal={refusal ?? mayNotRun}
        title={`Take the new version of “${scriptName ?? 'the script'}”`}
        question="All checks of this group by this script then run what it holds now. Read it before: it runs with the rights of the agent."
        confirm="Take the new version"
        run={() =>
          take.mutateAsync({ params: { id: planId, groupId: id }, body: { repinScripts: [scriptId] } })
        }
      >
        Take the new version
      </ConfirmAction>
    </Group>
  );
}
