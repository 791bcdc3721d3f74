import { Alert, Code, Stack, Text, Title } from '@mantine/core';
import { IconAlertTriangle } from '@tabler/icons-react';
import { formatCount } from '../../../ui/index.ts';

/** Why work failed, in words, and the code by which it is found in the documentation. */
export function Cause({
  error,
  title = 'It failed',
}: {
  error: { code: string; message: string } | null;
  title?: string;
}) {
  if (error === null) return null;
  return (
    <Alert color="red" icon={<IconAlertTriangle aria-hidden />} title={title}>
      <Text size="sm">{error.message}</Text>
      <Text size="xs">
        Code <Code>{error.code}</Code>
      </Text>
    </Alert>
  );
}

export function FailedPaths({
  title,
  count,
  paths,
}: {
  title: string;
  count: number | null;
  paths: readonly { path: string; message: string }[];
}) {
  if ((count ?? paths.length) === 0) return null;
  const more = (count ?? paths.length) - paths.length;
  return (
    <Stack gap={4}>
      <Title order={3} size="h5">
        {title} ({count === null ? 'at least ' : ''}
        {formatCount(count ?? paths.length)})
      </Title>
      {paths.map(({ path, message }) => (
        <Text key={path} size="sm" style={{ wordBreak: 'break-all' }}>
          <Code>{path}</Code> {message}
        </Text>
      ))}
      {more > 0 && <Text size="sm">and {formatCount(more)} more</Text>}
    </Stack>
  );
}
