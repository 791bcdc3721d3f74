import { Alert, Button, Center, Code, Group, Loader, Stack, Text, ThemeIcon, Title } from '@mantine/core';
import { IconAlertTriangle, IconInbox, IconLock } from '@tabler/icons-react';
import type { ReactNode } from 'react';
import { ApiError } from '../api/index.ts';
import { formatField } from './format.ts';

/** The thrown value as an error, which has a message for people. */
export const asError = (thrown: unknown): Error =>
  thrown instanceof Error ? thrown : new Error(String(thrown));

/** The states of a page without content: each says what is missing, and offers the next step. */

export function Loading({ what = 'Loading' }: { what?: string }) {
  return (
    <Center mih={160} role="status" aria-live="polite">
      <Group gap="sm">
        <Loader size="sm" />
        <Text c="dimmed">{what} …</Text>
      </Group>
    </Center>
  );
}

export function Failure({ error, retry }: { error: Error; retry?: (() => void) | undefined }) {
  const api = error instanceof ApiError ? error : undefined;
  const faults = Object.entries(api?.fields ?? {});
  return (
    <Alert
      color="red"
      icon={<IconAlertTriangle aria-hidden />}
      title={faults.length === 0 ? error.message : 'Some fields are not valid'}
      role="alert"
    >
      <Stack gap="xs" align="flex-start">
        {faults.map(([path, rule]) => (
          <Text key={path} size="sm">
            {formatField(path)}: {rule}
          </Text>
        ))}
        {api?.deviceReason !== undefined && <Text size="sm">{api.deviceReason}</Text>}
        {api?.requestId !== undefined && api.status >= 500 && api.deviceReason === undefined && (
          <Text size="xs" c="dimmed">
            Request <Code>{api.requestId}</Code>: the log of the server has more under this number.
          </Text>
        )}
        {retry !== undefined && (
          <Button size="xs" variant="default" onClick={retry}>
            Try again
          </Button>
        )}
      </Stack>
    </Alert>
  );
}

export function Empty({
  title,
  children,
  action,
}: {
  title: string;
  children?: ReactNode;
  action?: ReactNode;
}) {
  return (
    <Center mih={200} p="md">
      <Stack align="center" gap="xs" maw={520}>
        <ThemeIcon variant="light" color="gray" size="xl" radius="xl">
          <IconInbox aria-hidden />
        </ThemeIcon>
        <Title order={2} size="h4" ta="center">
          {title}
        </Title>
        {children !== undefined && (
          <Text c="dimmed" ta="center" component="div">
            {children}
          </Text>
        )}
        {action}
      </Stack>
    </Center>
  );
}

export function Forbidden({
  reason,
  isGrantable = true,
}: {
  reason: string;
  /** False if no role would help, because the account is of another kind. */
  isGrantable?: boolean;
}) {
  return (
    <Center mih={240} p="md">
      <Stack align="center" gap="xs" maw={520}>
        <ThemeIcon variant="light" color="orange" size="xl" radius="xl">
          <IconLock aria-hidden />
        </ThemeIcon>
        <Title order={2} size="h4">
          You may not see this
        </Title>
        <Text c="dimmed" ta="center">
          {reason}
          {isGrantable && ' An administrator of your organization can change that under Roles.'}
        </Text>
      </Stack>
    </Center>
  );
}

/** The outcome of reading from the API: a query, or a value that a page derives from one. */
export interface Read<T> {
  data: T | undefined;
  error: Error | null;
  refetch: () => unknown;
}

/** The data of a query, or what there is to say if it is not there. Old data stays while new data is read. */
export function Loaded<T>({
  query,
  what,
  children,
}: {
  query: Read<T>;
  what?: string;
  children: (data: T) => ReactNode;
}) {
  if (query.data !== undefined) return <>{children(query.data)}</>;
  if (query.error !== null) return <Failure error={query.error} retry={() => void query.refetch()} />;
  return <Loading {...(what === undefined ? {} : { what })} />;
}
