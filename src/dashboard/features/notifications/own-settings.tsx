import { Button, Group, Stack, Text, TextInput } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, useApiChange, type NotificationSettings } from '../../api/index.ts';
import { useMe } from '../../session.ts';
import {
  Action,
  FactTable,
  Failure,
  FormDialog,
  Loaded,
  Notice,
  RunAction,
  useForm,
  useSubmit,
} from '../../ui/index.ts';
import { HoursField } from './hours-field.tsx';
import { SEVERITIES } from '../alert-words/index.ts';
import { asBeginning, hoursText } from './policy-text.ts';
import { SeveritiesField } from './severities-field.tsx';

const READS = ['GET /users/me/notification-settings'] as const;
const NIGHT = { from: '22:00', to: '07:00' };

/** What the signed-in person wants to be told, wherever a policy names them. */
export function OwnNotifications() {
  const settings = useQuery(apiQuery('GET /users/me/notification-settings'));
  return (
    <Loaded query={settings} what="Reading your settings">
      {(data) => <Summary settings={data} />}
    </Loaded>
  );
}

function Summary({ settings }: { settings: NotificationSettings }) {
  const me = useMe();
  const [isOpen, { open, close }] = useDisclosure(false);
  const { address, addressVerified, phone, quietHours, criticalBreaksQuietHours, severities } = settings;
  const chosen = SEVERITIES.filter((severity) => severities?.includes(severity));
  return (
    <Stack gap="xs">
      <Text size="sm" c="dimmed">
        It counts wherever a notification policy names you.
      </Text>
      <FactTable
        label="Your notifications"
        facts={[
          ['Address', addressVerified && address !== null ? address : `${me.user.email}, as of your account`],
          ['Telephone', phone ?? 'None'],
          ['Alerts', severities === null ? 'Of every severity' : `Only ${chosen.join(', ')}`],
          ['Quiet hours', quietHours === null ? 'None' : asBeginning(hoursText(quietHours))],
          [
            'In quiet hours',
            quietHours === null
              ? undefined
              : criticalBreaksQuietHours
                ? 'Critical alerts are sent'
                : 'Nothing is sent',
          ],
        ]}
      />
      {address !== null && !addressVerified && <VerifyAddress key={address} address={address} />}
      <Group>
        <Action variant="default" onClick={open}>
          Change the notifications
        </Action>
      </Group>
      {isOpen && <OwnSettingsDialog settings={settings} onClose={close} />}
    </Stack>
  );
}

/** Alerts go to the address once its code was entered. */
function VerifyAddress({ address }: { address: string }) {
  const me = useMe();
  const [code, setCode] = useState('');
  const verify = useApiChange('POST /users/me/notification-settings/verify-address', { refreshes: READS });
  const again = useApiChange('POST /users/me/notification-settings/address-code');
  const { onSubmit, isBusy, failure, faults } = useSubmit(() => verify.mutateAsync({ body: { code } }));
  return (
    <Notice tone="warning" title="Verify your address">
      <form onSubmit={onSubmit}>
        <Stack gap="xs">
          <Text size="sm">
            {again.isSuccess ? 'A new code' : 'A code'} was mailed to {address}. Until you enter it here, you
            are told at {me.user.email}.
          </Text>
          <TextInput
            label="Code"
            inputMode="numeric"
            autoComplete="one-time-code"
            maxLength={20}
            w={240}
            value={code}
            onChange={({ currentTarget }) => setCode(currentTarget.value)}
            error={faults['code']}
            required
          />
          {failure !== undefined && <Failure error={failure} />}
          <Group gap="xs">
            <Button type="submit" loading={isBusy}>
              Verify the address
            </Button>
            <RunAction variant="default" run={() => again.mutateAsync({})}>
              Mail a new code
            </RunAction>
          </Group>
        </Stack>
      </form>
    </Notice>
  );
}

function OwnSettingsDialog({ settings, onClose }: { settings: NotificationSettings; onClose: () => void }) {
  const me = useMe();
  const { addressVerified: _, ...own } = settings;
  const form = useForm({ ...own, severities: own.severities ?? [] });
  const { severities, ...values } = form.values;
  const change = useApiChange('PATCH /users/me/notification-settings', { refreshes: READS });
  return (
    <FormDialog
      title="Your notifications"
      size="lg"
      onClose={onClose}
      submit={() =>
        change.mutateAsync({
          body: { ...values, severities: severities.length === 0 ? null : severities },
        })
      }
      submitLabel="Save"
      form={form}
      fields={[
        {
          name: 'address',
          kind: 'email',
          label: 'Address',
          description:
            'Where you are told. Empty: the address of your account. A code is mailed to a new one.',
          placeholder: me.user.email,
          maxLength: 255,
          empty: null,
        },
        {
          name: 'phone',
          label: 'Telephone',
          description: 'For those who look after the alerts. Nothing is sent to it.',
          maxLength: 50,
          empty: null,
        },
        {
          name: 'severities',
          control: (field) => (
            <SeveritiesField
              {...field}
              label="Alerts"
              description="None chosen: you are told of every severity that a policy sends you."
            />
          ),
        },
        {
          name: 'quietHours',
          control: (field) => (
            <HoursField
              {...field}
              label="Quiet hours"
              description="Off: you are told at any time."
              first={NIGHT}
            />
          ),
        },
        form.values.quietHours !== null && {
          name: 'criticalBreaksQuietHours',
          kind: 'switch',
          label: 'Critical alerts are sent in quiet hours as well',
        },
      ]}
    />
  );
}
