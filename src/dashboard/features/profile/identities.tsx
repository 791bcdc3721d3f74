import { Group, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { apiQuery, useApiChange } from '../../api/index.ts';
import { Action, ConfirmAction, Loaded, When } from '../../ui/index.ts';

const refreshes = ['GET /sso/identities', 'GET /sso/link/options'] as const;

/** The accounts of identity providers with which the person can sign in. */
export function Identities() {
  const identities = useQuery(apiQuery('GET /sso/identities'));
  const options = useQuery(apiQuery('GET /sso/link/options'));
  const unlink = useApiChange('DELETE /sso/identities/{id}', { refreshes });
  const start = useApiChange('POST /sso/link/start/{providerId}');
  const link = (providerId: string) =>
    start.mutate({ params: { providerId } }, { onSuccess: ({ url }) => window.location.assign(url) });
  const free = options.data?.data.filter(({ linked }) => !linked) ?? [];
  return (
    <Loaded query={identities} what="Reading your links">
      {({ data }) => (
        <Stack gap="xs">
          {data.length === 0 && free.length === 0 && (
            <Text size="sm" c="dimmed">
              Your organization has no single sign-on.
            </Text>
          )}
          {data.map(({ id, provider, email, lastLoginAt }) => (
            <Group key={id} justify="space-between">
              <Text size="sm">
                {provider?.name ?? 'A provider that was removed'} {email !== null && `(${email})`}, last used{' '}
                <When at={lastLoginAt} />
              </Text>
              <ConfirmAction
                size="compact-xs"
                variant="subtle"
                title="Remove the link"
                question="You can no longer sign in with this account, until you link it again."
                confirm="Remove"
                run={() => unlink.mutateAsync({ params: { id } })}
              >
                Remove
              </ConfirmAction>
            </Group>
          ))}
          {free.map(({ id, name }) => (
            <Group key={id}>
              <Action variant="default" onClick={() => link(id)}>
                Link {name}
              </Action>
            </Group>
          ))}
        </Stack>
      )}
    </Loaded>
  );
}
