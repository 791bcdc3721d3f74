import { Code, Group, Stack, Text, Title } from '@mantine/core';
import { useCallback, useState } from 'react';
import { z } from 'zod';
import type { JobOutput, JobState } from '../../../../../protocol/index.ts';
import { isFinal } from '../../../../live/index.ts';
import { StateBadge } from '../../../../ui/index.ts';
import styles from './command-output.module.css';
import { NOTHING_STREAMED, withOutput, type Streamed } from './streamed-output.ts';

export function useStreamedOutput() {
  const [streamed, setStreamed] = useState(NOTHING_STREAMED);
  const onOutput = useCallback((output: JobOutput) => setStreamed((known) => withOutput(known, output)), []);
  return { streamed, onOutput };
}

const ScriptOutput = z.object({
  exitCode: z.number().nullable(),
  stdout: z.string(),
  stderr: z.string(),
  truncated: z.boolean(),
});

/** What a script prints: as it comes while it runs, and as the device has reported it afterwards. */
export function CommandOutput({
  command: { type, status, output },
  streamed,
}: {
  command: { type: string; status: JobState; output: unknown };
  streamed: Streamed;
}) {
  const result = ScriptOutput.safeParse(output);
  if (result.success) {
    const { exitCode, stdout, stderr, truncated } = result.data;
    return (
      <Stack gap={4}>
        <Group gap="xs">
          <StateBadge
            tone={exitCode === 0 ? 'good' : 'bad'}
            label={exitCode === null ? 'Ended by a signal' : `Exit code ${exitCode}`}
          />
          {truncated && <Text size="sm">Only the end of its output was kept.</Text>}
        </Group>
        <Printed title="Output" text={stdout} none="It printed nothing." />
        {stderr !== '' && <Printed title="Errors" text={stderr} none="" />}
      </Stack>
    );
  }
  if (type !== 'script.run') return null;
  if (streamed.rows.length === 0 && isFinal({ state: status })) return null;
  return (
    <Stack gap={4}>
      <Title order={3} size="h5">
        Output so far
      </Title>
      {streamed.isPartial && (
        <Text size="xs">The beginning is missing here. All of it is shown when the script has ended.</Text>
      )}
      <Code block className={styles['printed']} tabIndex={0} role="log" aria-label="Output of the script">
        {streamed.rows.length === 0
          ? 'Nothing yet.'
          : streamed.rows.map(({ stream, text }, place) => (
              // Rows are only added at the end.
              // oxlint-disable-next-line react/no-array-index-key
              <span key={place} className={stream === 'stderr' ? styles['errors'] : undefined}>
                {text}
              </span>
            ))}
      </Code>
    </Stack>
  );
}

function Printed({ title, text, none }: { title: string; text: string; none: string }) {
  return (
    <>
      <Title order={3} size="h5">
        {title}
      </Title>
      {text === '' ? (
        <Text size="sm">{none}</Text>
      ) : (
        <Code block className={styles['printed']} tabIndex={0}>
          {text}
        </Code>
      )}
    </>
  );
}
