import { Button, Group, PasswordInput, Stack, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, call, renewToken, useApiChange, type Answer } from '../../api/index.ts';
import { hasPasskeys, makePasskey } from '../../passkeys.ts';
import {
  Action,
  ConfirmAction,
  FormDialog,
  Loaded,
  PagedTable,
  StateBadge,
  useForm,
  When,
} from '../../ui/index.ts';
import { RecoveryCodes } from './second-factor.tsx';

type Passkey = Answer<'GET /auth/passkeys'>['data'][number];

const refreshes = ['GET /auth/passkeys', 'GET /auth/mfa', 'GET /users/me', 'GET /auth/sessions'] as const;

/** The passkeys of the signed-in person: ways to sign in without a password. */
export function Passkeys() {
  const passkeys = useQuery(apiQuery('GET /auth/passkeys'));
  const [isAdding, setAdding] = useState(false);
  const [renamed, setRenamed] = useState<Passkey>();
  const [codes, setCodes] = useState<readonly string[]>();
  const remove = useApiChange('DELETE /auth/passkeys/{id}', { refreshes });
  return (
    <Loaded query={passkeys} what="Reading your passkeys">
      {({ data }) => (
        <Stack gap="sm" align="flex-start">
          <Text size="sm">
            With a passkey you sign in by the fingerprint, face or PIN of your device, or by a security key. A
            copied page cannot ask for it.
          </Text>
          {codes !== undefined && <RecoveryCodes codes={codes} />}
          {data.length > 0 && (
            <PagedTable
              label="Passkeys"
              rows={data}
              keyOf={({ id }) => id}
              columns={[
                {
                  header: 'Name',
                  isName: true,
                  cell: ({ name, synced, suspectAt }) => (
                    <Group gap="xs">
                      <Text size="sm">{name}</Text>
                      {synced && <StateBadge tone="neutral" label="Synced" />}
                      {suspectAt !== null && <StateBadge tone="bad" label="May be copied: remove it" />}
                    </Group>
                  ),
                },
                { header: 'Added', cell: ({ createdAt }) => <When at={createdAt} /> },
                { header: 'Last used', cell: ({ lastUsedAt }) => <When at={lastUsedAt} /> },
                {
                  header: 'Actions',
                  align: 'right',
                  cell: (passkey) => (
                    <>
                      <Action inRow onClick={() => setRenamed(passkey)}>
                        Rename
                      </Action>
                      <ConfirmAction
                        inRow
                        title={`Remove “${passkey.name}”`}
                        question="You can no longer sign in with it, and your other sessions end. Delete it on its device as well."
                        confirm="Remove"
                        run={() => remove.mutateAsync({ params: { id: passkey.id } })}
                      >
                        Remove
                      </ConfirmAction>
                    </>
                  ),
                },
              ]}
            />
          )}
          {hasPasskeys() ? (
            <Button variant={data.length > 0 ? 'default' : 'filled'} onClick={() => setAdding(true)}>
              Add a passkey
            </Button>
          ) : (
            <Text size="sm" c="dimmed">
              This browser cannot add passkeys here. They need an address that begins with https and has a
              name.
            </Text>
          )}
          {isAdding && <AddDialog onClose={() => setAdding(false)} onCodes={setCodes} />}
          {renamed !== undefined && <RenameDialog passkey={renamed} onClose={() => setRenamed(undefined)} />}
        </Stack>
      )}
    </Loaded>
  );
}

/** The first second factor of an account needs the password; later ones a second factor, for which the page asks by itself. */
function AddDialog({
  onClose,
  onCodes,
}: {
  onClose: () => void;
  onCodes: (codes: readonly string[]) => void;
}) {
  const factors = useQuery(apiQuery('GET /auth/mfa'));
  const [name, setName] = useState('');
  const [currentPassword, setCurrent] = useState('');
  const add = useApiChange('POST /auth/passkeys', { refreshes });
  const submit = async () => {
    const body = currentPassword === '' ? {} : { currentPassword };
    const credential = await makePasskey(await call('POST /auth/passkeys/options', { body }));
    const { recoveryCodes } = await add.mutateAsync({ body: { name: name.trim(), credential } });
    // The next token says that this session has proved it.
    await renewToken();
    if (recoveryCodes.length > 0) onCodes(recoveryCodes);
  };
  return (
    <FormDialog title="Add a passkey" onClose={onClose} submit={submit} submitLabel="Continue">
      {(faults) => (
        <>
          <TextInput
            label="Name"
            description="By which you recognize it, such as the device that keeps it."
            required
            maxLength={100}
            data-autofocus
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            error={faults['name']}
          />
          {factors.data?.mfaEnabled === false && (
            <PasswordInput
              label="Your password"
              description="Leave it empty if you only sign in with single sign-on."
              autoComplete="current-password"
              value={currentPassword}
              onChange={(event) => setCurrent(event.currentTarget.value)}
              error={faults['currentPassword']}
            />
          )}
        </>
      )}
    </FormDialog>
  );
}

function RenameDialog({ passkey: { id, name }, onClose }: { passkey: Passkey; onClose: () => void }) {
  const form = useForm({ name });
  const rename = useApiChange('PATCH /auth/passkeys/{id}', { refreshes });
  return (
    <FormDialog
      title="Rename the passkey"
      onClose={onClose}
      submit={() => rename.mutateAsync({ params: { id }, body: form.values })}
      submitLabel="Rename"
      form={form}
      fields={[{ name: 'name', label: 'Name', required: true, maxLength: 100 }]}
    />
  );
}
