import { Group, Stack, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { apiQuery, useApiChange, type NotificationSettings } from '../../api/index.ts';
import { useMe } from '../../session.ts';
import { Action, FactTable, FormDialog, Loaded, useForm } from '../../ui/index.ts';
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
  const { address, phone, quietHours, criticalBreaksQuietHours, severities } = settings;
  const chosen = SEVERITIES.filter((severity) => severities?.includes(severity));
  return (
    <Stack gap="xs">
      <Text size="sm" c="dimmed">
        It counts wherever a notification policy names you.
      </Text>
      <FactTable
        label="Your notifications"
        facts={[
          ['Address', address ?? `${me.user.email}, as of your account`],
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
      <Group>
        <Action variant="default" onClick={open}>
          Change the notifications
        </Action>
      </Group>
      {isOpen && <OwnSettingsDialog settings={settings} onClose={close} />}
    </Stack>
  );
}

function OwnSettingsDialog({ settings, onClose }: { settings: NotificationSettings; onClose: () => void }) {
  const me = useMe();
  const form = useForm({ ...settings, severities: settings.severities ?? [] });
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
          description: 'Where you are told. Empty: the address of your account.',
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
