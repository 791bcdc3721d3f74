import { Button, Group, TextInput } from '@mantine/core';
import { useState } from 'react';
import { useApiChange, type NotificationChannel } from '../../api/index.ts';
import { FormDialog, useForm } from '../../ui/index.ts';
import { CHANNEL_TYPE_CHOICES, CHANNEL_TYPES, newSigningSecret, type ChannelType } from './channel-types.ts';
import { ownerBody, useFirstOwner, useOwnerChoice } from '../owners/index.ts';
import { CHANNEL_READS } from './reads.ts';

const NO_DETAILS = { address: '', url: '', server: '', topic: '' };

/** Creates a channel, or changes one. The type says which fields there are. */
export function ChannelDialog({
  channel,
  onClose,
}: {
  channel: NotificationChannel | undefined;
  onClose: () => void;
}) {
  const firstOwner = useFirstOwner();
  const ownerChoice = useOwnerChoice();
  const form = useForm<Values>({
    owner: undefined,
    name: channel?.name ?? '',
    type: channel?.type ?? 'email',
    ...NO_DETAILS,
    ...channel?.details,
    secret: '',
    dropsSecret: false,
  });
  const { owner = firstOwner, name, type, secret, dropsSecret } = form.values;
  const { help, details: fields, secret: secretField } = CHANNEL_TYPES[type];
  const details = Object.fromEntries(
    fields.flatMap((field) => {
      const text = form.values[field.name].trim();
      return text === '' ? [] : [[field.name, text]];
    }),
  );
  const create = useApiChange('POST /notification-channels', { refreshes: CHANNEL_READS });
  const change = useApiChange('PATCH /notification-channels/{id}', { refreshes: CHANNEL_READS });
  const submit = () => {
    const given = secret.trim() === '' ? {} : { secret: secret.trim() };
    if (channel === undefined) {
      return create.mutateAsync({ body: { ...ownerBody(owner), name, type, details, ...given } });
    }
    const isElsewhere = fields.some(
      (field) => (channel.details[field.name] ?? '') !== (details[field.name] ?? ''),
    );
    return change.mutateAsync({
      params: { id: channel.id },
      body: { name, ...(isElsewhere ? { details } : {}), ...(dropsSecret ? { secret: null } : given) },
    });
  };
  const isKept = channel?.hasSecret === true;
  return (
    <FormDialog
      size="lg"
      title={channel === undefined ? 'New channel' : `Change “${channel.name}”`}
      onClose={onClose}
      submit={submit}
      submitLabel={channel === undefined ? 'Create channel' : 'Save'}
      form={form}
      fields={[
        {
          name: 'name',
          label: 'Name',
          description: 'As people call it: “Slack of the helpdesk”.',
          required: true,
          maxLength: 200,
        },
        channel === undefined &&
          ownerChoice && {
            ...ownerChoice,
            description: 'Policies of this organization can use it; for all organizations, every policy can.',
            shown: owner,
            empty: undefined,
          },
        channel === undefined && {
          name: 'type',
          kind: 'choice',
          label: 'Type',
          required: true,
          options: CHANNEL_TYPE_CHOICES,
          resets: { ...NO_DETAILS, secret: '' },
        },
        { note: 'help', text: help },
        ...fields.map((field) => ({ ...field, fault: `details.${field.name}`, maxLength: 2048 })),
        secretField !== undefined &&
          type !== 'webhook' &&
          !dropsSecret && {
            name: 'secret',
            kind: 'password',
            label: secretField.label,
            required: secretField.required && !isKept,
            maxLength: 2048,
            description: isKept ? `${KEPT} Leave it empty to keep it.` : KEPT,
          },
        type === 'webhook' && {
          name: 'secret',
          control: (field: SecretControl) => <SigningSecret {...field} isKept={isKept} />,
        },
        isKept &&
          secretField?.required === false && {
            name: 'dropsSecret',
            kind: 'checkbox',
            label: 'Remove the stored access token',
          },
      ]}
    />
  );
}

interface Values {
  owner: string | undefined;
  name: string;
  type: ChannelType;
  address: string;
  url: string;
  server: string;
  topic: string;
  secret: string;
  dropsSecret: boolean;
}

const KEPT = 'It is stored encrypted and never shown again.';

interface SecretControl {
  value: string;
  onChange: (secret: string) => void;
  error: string | undefined;
}

/** The secret with which requests are signed. A new one can be made here, and is shown until the dialog is closed. */
function SigningSecret({ value, onChange, error, isKept }: SecretControl & { isKept: boolean }) {
  const [isMade, setMade] = useState(false);
  return (
    <Group align="flex-end" gap="xs" wrap="nowrap">
      <TextInput
        flex={1}
        label="Signing secret"
        description={
          isMade
            ? 'Copy it into the receiver now: it is never shown again.'
            : isKept
              ? 'Leave it empty to keep the stored one.'
              : 'whsec_ and base64 of 24 to 64 bytes. It is stored encrypted and never shown again.'
        }
        required={!isKept}
        spellCheck={false}
        autoComplete="off"
        value={value}
        onChange={(event) => onChange(event.currentTarget.value)}
        error={error}
      />
      <Button
        variant="default"
        onClick={() => {
          setMade(true);
          onChange(newSigningSecret());
        }}
      >
        Make one
      </Button>
    </Group>
  );
}
