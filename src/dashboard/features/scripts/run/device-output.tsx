import { Code, Group, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { z } from 'zod';
import { apiQuery } from '../../../api/index.ts';
import { useLiveJobs } from '../../../live/index.ts';
import { Failure, StateBadge } from '../../../ui/index.ts';

/** The end of what is printed while the script runs. All that was kept is shown when it has ended. */
const KEPT = 100_000;
const KEPT_STYLE = {
  maxHeight: 320,
  overflow: 'auto',
  whiteSpace: 'pre-wrap',
  wordBreak: 'break-word',
} as const;

const ScriptOutput = z.object({
  exitCode: z.number().nullable(),
  stdout: z.string(),
  stderr: z.string(),
  truncated: z.boolean(),
});
const Rows = z.array(z.object({ text: z.string() }));

/** What the script prints on one device: as it comes, and as the device has reported it at the end. */
export function DeviceOutput({ commandId, name, state }: { commandId: string; name: string; state: string }) {
  const [streamed, setStreamed] = useState('');
  useLiveJobs({ jobId: commandId }, ({ rows }) => {
    const parsed = Rows.safeParse(rows);
    if (!parsed.success) return;
    const more = parsed.data.map(({ text }) => text).join('');
    setStreamed((known) => (known + more).slice(-KEPT));
  });
  const command = useQuery({
    ...apiQuery('GET /commands/{id}', { params: { id: commandId } }),
    // Read anew at each step of the command.
    queryKey: ['GET /commands/{id}', { params: { id: commandId } }, state],
  });
  const result = ScriptOutput.safeParse(command.data?.output);
  return (
    <Stack gap={4}>
      <Group gap="xs">
        <Title order={3} size="h5">
          Output of {name}
        </Title>
        {result.success && (
          <StateBadge
            tone={result.data.exitCode === 0 ? 'good' : 'bad'}
            label={result.data.exitCode === null ? 'Ended by a signal' : `Exit code ${result.data.exitCode}`}
          />
        )}
      </Group>
      {command.error !== null && <Failure error={command.error} />}
      {result.success && result.data.truncated && <Text size="xs">Only the end of its output was kept.</Text>}
      {command.data?.error != null && <Text size="sm">{command.data.error.message}</Text>}
      <Code block tabIndex={0} role="log" aria-label={`Output of ${name}`} style={KEPT_STYLE}>
        {(result.success ? result.data.stdout : streamed) ||
          (result.success ? 'It printed nothing.' : 'Nothing yet.')}
      </Code>
      {result.success && result.data.stderr !== '' && (
        <>
          <Text size="sm" fw={600}>
            Errors
          </Text>
          <Code block tabIndex={0} aria-label={`Errors of ${name}`} style={KEPT_STYLE}>
            {result.data.stderr}
          </Code>
        </>
      )}
    </Stack>
  );
}
