import { Alert, NumberInput, Select, Text, TextInput } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconKey, IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, useApiChange } from '../../api/index.ts';
import { useOrganizations } from '../../directory/index.ts';
import { useMe } from '../../session/index.ts';
import {
  Action,
  ConfirmAction,
  CopyText,
  Empty,
  FormDialog,
  Loaded,
  Page,
  PagedTable,
  StateBadge,
  When,
} from '../../ui/index.ts';
import { PermissionChoice } from '../people/index.ts';

const refreshes = ['GET /api-keys'] as const;
const DAY_MS = 86_400_000;

/** Keys with which programs use the API and the sockets, with part of the rights of who makes them. */
export function ApiKeysPage() {
  const keys = useQuery(apiQuery('GET /api-keys', { query: { limit: '100' } }));
  const [isOpen, { open, close }] = useDisclosure(false);
  const [made, setMade] = useState<string>();
  const revoke = useApiChange('DELETE /api-keys/{id}', { refreshes });
  const rotate = useApiChange('POST /api-keys/{id}/rotate', { refreshes });
  const newKey = (
    <Action leftSection={<IconPlus size={14} aria-hidden />} onClick={open}>
      New key
    </Action>
  );
  return (
    <Page title="API keys" description="For programs that use the REST API." actions={newKey}>
      {made !== undefined && (
        <Alert color="orange" icon={<IconKey aria-hidden />} title="The new key is shown only now">
          <CopyText label="The new key" text={made} />
        </Alert>
      )}
      <Loaded query={keys} what="Reading keys">
        {({ data }) =>
          data.length === 0 ? (
            <Empty title="No keys yet" action={newKey}>
              A program sends the key as its bearer token. It can do what the key allows, and never more than
              you.
            </Empty>
          ) : (
            <PagedTable
              label="API keys"
              rows={data}
              keyOf={({ id }) => id}
              columns={[
                { header: 'Name', isName: true, cell: ({ name }) => name },
                { header: 'Prefix', cell: ({ keyPrefix }) => keyPrefix },
                { header: 'Allows', cell: ({ scopes }) => <Text size="xs">{scopes.join(', ')}</Text> },
                { header: 'Last used', cell: ({ lastUsedAt }) => <When at={lastUsedAt} /> },
                { header: 'Ends', cell: ({ expiresAt }) => <When at={expiresAt} /> },
                {
                  header: 'State',
                  cell: ({ revokedAt }) => (
                    <StateBadge
                      tone={revokedAt === null ? 'good' : 'neutral'}
                      label={revokedAt === null ? 'Valid' : 'Revoked'}
                    />
                  ),
                },
                {
                  header: 'Actions',
                  align: 'right',
                  cell: ({ id, name, revokedAt }) =>
                    revokedAt === null && (
                      <>
                        <ConfirmAction
                          size="compact-xs"
                          variant="subtle"
                          color="blue"
                          title={`Replace “${name}”`}
                          question="A new key takes the place of this one, which works no longer."
                          confirm="Replace"
                          run={async () => setMade((await rotate.mutateAsync({ params: { id } })).key)}
                        >
                          Replace
                        </ConfirmAction>
                        <ConfirmAction
                          size="compact-xs"
                          variant="subtle"
                          title={`Revoke “${name}”`}
                          question="Programs that use this key are refused at once."
                          confirm="Revoke"
                          run={() => revoke.mutateAsync({ params: { id } })}
                        >
                          Revoke
                        </ConfirmAction>
                      </>
                    ),
                },
              ]}
            />
          )
        }
      </Loaded>
      <NewApiKeyDialog opened={isOpen} onClose={close} onMade={setMade} />
    </Page>
  );
}

function NewApiKeyDialog({
  opened,
  onClose,
  onMade,
}: {
  opened: boolean;
  onClose: () => void;
  onMade: (key: string) => void;
}) {
  const me = useMe();
  const organizations = useOrganizations();
  const [name, setName] = useState('');
  const [orgId, setOrgId] = useState<string | null>(null);
  const [scopes, setScopes] = useState<string[]>([]);
  const [days, setDays] = useState<number | string>(90);
  const create = useApiChange('POST /api-keys', { refreshes });
  const submit = async () => {
    const { key } = await create.mutateAsync({
      body: {
        name,
        scopes,
        ...(orgId === null ? {} : { orgId }),
        ...(typeof days === 'number'
          ? { expiresAt: new Date(Date.now() + days * DAY_MS).toISOString() }
          : {}),
      },
    });
    onMade(key);
  };
  return (
    <FormDialog
      title="New API key"
      size="lg"
      opened={opened}
      onClose={onClose}
      submit={submit}
      submitLabel="Create key"
    >
      {(faults) => (
        <>
          <TextInput
            label="Name"
            description="What the key is for."
            required
            data-autofocus
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            error={faults['name']}
          />
          {me.scope !== 'organization' && (
            <Select
              label="Organization"
              description="Empty: all that you may see."
              clearable
              searchable
              data={organizations.map(({ id, name: label }) => ({ value: id, label }))}
              value={orgId}
              onChange={setOrgId}
              error={faults['orgId']}
            />
          )}
          <NumberInput
            label="Valid for, in days"
            description="Empty: until it is revoked."
            min={1}
            value={days}
            onChange={setDays}
            error={faults['expiresAt']}
          />
          <PermissionChoice label="Allows" value={scopes} onChange={setScopes} error={faults['scopes']} />
        </>
      )}
    </FormDialog>
  );
}
