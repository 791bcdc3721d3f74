import { Code, Group, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { z } from 'zod';
import { apiQuery } from '../../api/index.ts';
import { useLiveJobs } from '../../live/index.ts';
import { Failure, Loaded, StateBadge } from '../../ui/index.ts';

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
type ScriptOutput = z.infer<typeof ScriptOutput>;
const Rows = z.array(z.object({ text: z.string() }));

/** The output of the script on one device: live while it runs, and then as the device has reported it at the end. */
export function DeviceOutput({
  commandId,
  name,
  state,
}: {
  commandId: string;
  name: string;
  /** Of the command, at each change of which it is read anew. */
  state: string;
}) {
  const [streamed, setStreamed] = useState('');
  useLiveJobs({ jobId: commandId }, ({ rows }) => {
    const parsed = Rows.safeParse(rows);
    if (!parsed.success) return;
    const more = parsed.data.map(({ text }) => text).join('');
    setStreamed((known) => (known + more).slice(-KEPT));
  });
  const command = useQuery({
    ...apiQuery('GET /commands/{id}', { params: { id: commandId } }),
    queryKey: ['GET /commands/{id}', { params: { id: commandId } }, state],
  });
  const result = ScriptOutput.safeParse(command.data?.output);
  return (
    <Stack gap={4}>
      <Heading name={name} output={result.data} />
      {command.error !== null && <Failure error={command.error} />}
      {command.data?.error != null && <Text size="sm">{command.data.error.message}</Text>}
      {result.success ? (
        <Printed output={result.data} name={name} />
      ) : (
        <Code block tabIndex={0} role="log" aria-label={`Output of ${name}`} style={KEPT_STYLE}>
          {streamed || 'Nothing yet.'}
        </Code>
      )}
    </Stack>
  );
}

/** What the devices of a group have reported alike. */
export function SharedOutput({
  runId,
  outputHash,
  name,
}: {
  runId: string;
  outputHash: string;
  name: string;
}) {
  const output = useQuery(
    apiQuery('GET /script-runs/{id}/outputs/{outputHash}', { params: { id: runId, outputHash } }),
  );
  return (
    <Loaded query={output} what="Reading the output">
      {(data) => (
        <Stack gap={4}>
          <Heading name={name} output={data} />
          {data.error === null ? (
            <Printed output={data} name={name} />
          ) : (
            <Text size="sm">{data.error.message}</Text>
          )}
        </Stack>
      )}
    </Loaded>
  );
}

function Heading({ name, output }: { name: string; output: Pick<ScriptOutput, 'exitCode'> | undefined }) {
  return (
    <Group gap="xs">
      <Title order={3} size="h5">
        Output of {name}
      </Title>
      {output !== undefined && (
        <StateBadge
          tone={output.exitCode === 0 ? 'good' : 'bad'}
          label={output.exitCode === null ? 'No exit code' : `Exit code ${output.exitCode}`}
        />
      )}
    </Group>
  );
}

function Printed({ output, name }: { output: ScriptOutput; name: string }) {
  return (
    <>
      {output.truncated && <Text size="xs">Only the end of its output was kept.</Text>}
      <Code block tabIndex={0} role="log" aria-label={`Output of ${name}`} style={KEPT_STYLE}>
        {output.stdout || 'It printed nothing.'}
      </Code>
      {output.stderr !== '' && (
        <>
          <Text size="sm" fw={600}>
            Errors
          </Text>
          <Code block tabIndex={0} aria-label={`Errors of ${name}`} style={KEPT_STYLE}>
            {output.stderr}
          </Code>
        </>
      )}
    </>
  );
}
