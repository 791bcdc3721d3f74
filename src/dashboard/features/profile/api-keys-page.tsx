import { Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconKey, IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { PermissionChoice } from '../people/index.ts';
import { apiQuery, useApiChange } from '../../api/index.ts';
import { useOrganizations, choicesOf } from '../../directory.ts';
import { useMe } from '../../session.ts';
import {
  Action,
  ConfirmAction,
  CopyText,
  FormDialog,
  StateBadge,
  When,
  useForm,
  ListPage,
  Notice,
} from '../../ui/index.ts';

const refreshes = ['GET /api-keys'] as const;
const DAY_MS = 86_400_000;

/** Keys with which programs use the API and the sockets, with a part of the permissions of their owner. */
export function ApiKeysPage() {
  const keys = useQuery(apiQuery('GET /api-keys', { query: { limit: '100' } }));
  const [isOpen, { open, close }] = useDisclosure(false);
  const [made, setMade] = useState<string>();
  const revoke = useApiChange('DELETE /api-keys/{id}', { refreshes });
  const rotate = useApiChange('POST /api-keys/{id}/rotate', { refreshes });
  const newKey = (
    <Action icon={IconPlus} onClick={open}>
      New key
    </Action>
  );
  return (
    <ListPage
      title="API keys"
      description="For programs that use the REST API."
      actions={newKey}
      notice={
        made !== undefined && (
          <Notice tone="warning" icon={IconKey} title="The new key is shown only now">
            <CopyText label="The new key" text={made} />
          </Notice>
        )
      }
      query={keys}
      noun="keys"
      label="API keys"
      keyOf={({ id }) => id}
      empty={{
        title: 'No keys yet',
        text: 'A program sends the key as its bearer token. It can do what the key allows, and never more than you.',
        action: newKey,
      }}
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
                  inRow
                  color="blue"
                  title={`Replace “${name}”`}
                  question="A new key takes the place of this one, which works no longer."
                  confirm="Replace"
                  run={async () => setMade((await rotate.mutateAsync({ params: { id } })).key)}
                >
                  Replace
                </ConfirmAction>
                <ConfirmAction
                  inRow
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
    >
      {isOpen && <NewApiKeyDialog onClose={close} onMade={setMade} />}
    </ListPage>
  );
}

interface NewApiKey {
  name: string;
  orgId: string | undefined;
  days: number | undefined;
  scopes: string[];
}

function NewApiKeyDialog({ onClose, onMade }: { onClose: () => void; onMade: (key: string) => void }) {
  const me = useMe();
  const organizations = useOrganizations();
  const form = useForm<NewApiKey>({ name: '', orgId: undefined, days: 90, scopes: [] });
  const create = useApiChange('POST /api-keys', { refreshes });
  const submit = async () => {
    const { name, scopes, orgId, days } = form.values;
    const { key } = await create.mutateAsync({
      body: {
        name,
        scopes,
        ...(orgId === undefined ? {} : { orgId }),
        ...(days === undefined ? {} : { expiresAt: new Date(Date.now() + days * DAY_MS).toISOString() }),
      },
    });
    onMade(key);
  };
  return (
    <FormDialog
      title="New API key"
      size="lg"
      onClose={onClose}
      submit={submit}
      submitLabel="Create key"
      form={form}
      fields={[
        { name: 'name', label: 'Name', description: 'What the key is for.', required: true },
        me.scope !== 'organization' && {
          name: 'orgId',
          kind: 'choice',
          label: 'Organization',
          description: 'Empty: all that you may see.',
          isSearchable: true,
          options: choicesOf(organizations),
          empty: undefined,
        },
        {
          name: 'days',
          fault: 'expiresAt',
          kind: 'number',
          label: 'Valid for, in days',
          description: 'Empty: until it is revoked.',
          min: 1,
          empty: undefined,
        },
        { name: 'scopes', control: (field) => <PermissionChoice label="Allows" {...field} /> },
      ]}
    />
  );
}
