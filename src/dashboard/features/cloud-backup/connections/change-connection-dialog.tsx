import { PasswordInput, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import { useApiChange, type CloudConnection } from '../../../api/index.ts';
import { FormDialog } from '../../../ui/index.ts';

/** Renames a connection, or gives it the secret that takes the place of an expired one. */
export function ChangeConnectionDialog({
  connection: { id, displayName, authMethod, tenantId, clientId: shownClientId },
  onClose,
}: {
  connection: CloudConnection;
  onClose: () => void;
}) {
  const [name, setName] = useState(displayName);
  const [clientSecret, setSecret] = useState('');
  const [clientId, setClientId] = useState('');
  const change = useApiChange('PATCH /c2c/connections/{id}', { refreshes: ['GET /c2c/connections'] });
  return (
    <FormDialog
      title={`Change “${displayName}”`}
      opened
      onClose={onClose}
      submitLabel="Save"
      submit={() =>
        change.mutateAsync({
          params: { id },
          body: {
            displayName: name,
            ...(clientSecret === '' ? {} : { clientSecret }),
            ...(clientId.trim() === '' ? {} : { clientId: clientId.trim() }),
          },
        })
      }
    >
      {(faults) => (
        <>
          <TextInput
            label="Name"
            required
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            error={faults['displayName']}
            data-autofocus
          />
          {authMethod === 'manual' && (
            <>
              <PasswordInput
                label="New client secret"
                description="Empty: the stored one stays."
                autoComplete="off"
                value={clientSecret}
                onChange={(event) => setSecret(event.currentTarget.value)}
                error={faults['clientSecret']}
              />
              <TextInput
                label="Application (client) id of another app"
                description={`Only with a new secret. Empty: ${shownClientId ?? 'the stored one'} stays.`}
                value={clientId}
                onChange={(event) => setClientId(event.currentTarget.value)}
                error={faults['clientId']}
              />
            </>
          )}
          <Text size="sm" c="dimmed">
            The directory {tenantId} stays: connect another one by a connection of its own.
          </Text>
        </>
      )}
    </FormDialog>
  );
}
