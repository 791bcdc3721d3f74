import { Drawer, Group, Stack, Text, Title } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { apiQuery, useApiChange, type Device } from '../../../../api/index.ts';
import { isFinal, useLiveJobs } from '../../../../live/index.ts';
import {
  Action,
  Failure,
  formatDuration,
  formatTime,
  formatWord,
  jobOutcome,
  JobStateBadge,
  Loaded,
} from '../../../../ui/index.ts';
import { useDeviceRefusals } from '../device-refusals.ts';
import { Facts } from '../summary/facts.tsx';
import { WithDetails } from '../tabs/more-details.tsx';
import { CommandOutput, useStreamedOutput } from './command-output.tsx';
import { commandName, endingOf } from './command-name.ts';

/** One command: how it stands, what it prints, and how it came there. */
export function CommandDrawer({
  id,
  device,
  onClose,
}: {
  id: string | undefined;
  device: Device;
  onClose: () => void;
}) {
  return (
    <Drawer opened={id !== undefined} onClose={onClose} position="right" size="xl" title="Command">
      {id !== undefined && <CommandDetails key={id} id={id} device={device} />}
    </Drawer>
  );
}

function CommandDetails({ id, device }: { id: string; device: Device }) {
  const queries = useQueryClient();
  const refusals = useDeviceRefusals(device);
  const { streamed, onOutput } = useStreamedOutput();
  const [job] = useLiveJobs({ jobId: id }, onOutput);
  const query = useQuery(apiQuery('GET /commands/{id}', { params: { id } }));
  const cancel = useApiChange('POST /commands/{id}/cancel', {
    refreshes: ['GET /commands/{id}', 'GET /devices/{id}/commands'],
  });
  const state = job?.state;
  useEffect(() => {
    if (state !== undefined) void queries.invalidateQueries({ queryKey: ['GET /commands/{id}'] });
  }, [state, queries]);
  return (
    <Loaded query={query} what="Reading the command">
      {(command) => {
        const isOver = isFinal({ state: command.status });
        const isAsked = command.cancelRequestedAt !== null || cancel.isPending;
        return (
          <Stack gap="sm">
            <Group justify="space-between">
              <Group gap="xs">
                <Title order={2} size="h4">
                  {commandName(command)}
                </Title>
                <JobStateBadge {...endingOf(command, isOver ? undefined : job)} />
              </Group>
              {!isOver && (
                <Action
                  variant="default"
                  refusal={
                    refusals.execute ??
                    (isAsked ? 'The device was asked to stop it. It answers when it has.' : undefined)
                  }
                  loading={cancel.isPending}
                  onClick={() => cancel.mutate({ params: { id } })}
                >
                  Cancel
                </Action>
              )}
            </Group>
            {cancel.error !== null && <Failure error={cancel.error} />}
            {command.waitsForDevice && (
              <Text size="sm">
                The device is offline. The command waits for it until{' '}
                {formatTime(new Date(command.expiresAt))}.
              </Text>
            )}
            {!isOver && job !== undefined && (job.message !== undefined || job.percent != null) && (
              <Text size="sm">
                {[
                  formatWord(job.phase),
                  job.percent == null ? undefined : `${Math.round(job.percent)} %`,
                  job.message,
                ]
                  .filter((part) => part !== undefined)
                  .join(' · ')}
              </Text>
            )}
            {command.error !== null && (
              <Text size="sm" fw={600}>
                {command.error.message} ({command.error.code})
              </Text>
            )}
            <CommandOutput command={command} streamed={streamed} />
            <Facts
              facts={[
                ['Sent', formatTime(new Date(command.createdAt))],
                ['Reason', command.reason],
                [
                  'Took',
                  command.startedAt === null || command.finishedAt === null
                    ? undefined
                    : formatDuration(Date.parse(command.finishedAt) - Date.parse(command.startedAt)),
                ],
                ['Deliveries', String(command.attempt)],
                ['Number', command.id],
              ]}
            />
            <Title order={3} size="h5">
              History
            </Title>
            <Facts
              facts={command.transitions.map(({ to, at, reason }) => {
                const { text } = jobOutcome(endingOf({ status: to, output: command.output }));
                return [formatTime(new Date(at)), reason === null ? text : `${text}: ${reason}`];
              })}
            />
            <WithDetails details={command.payload}>
              {command.payload === null
                ? 'What was sent is shown to who may send commands.'
                : 'What was sent'}
            </WithDetails>
          </Stack>
        );
      }}
    </Loaded>
  );
}
