import { Fieldset, Group, Select, Switch, Text, TextInput, List, Stack } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type LinkProps } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, useApiChange, type Partner } from '../../api/index.ts';
import { useMe, useRefusal, refusalOf, type Requirement } from '../../session.ts';
import { EMAIL_INPUT, formatWord, Loaded, TIME_ZONES, TextLink } from '../../ui/index.ts';
import {
  DATE_FORMATS,
  DAYS,
  HOURS,
  readPartnerSettings,
  TIME_FORMATS,
  type Day,
  SettingsForm,
  PARTNER_ONLY,
  SettingsFrame,
} from './settings-frame.tsx';

/** The own company: name, contact, hours and time zone. Without a company, it lists what the account can set up. */
export function CompanyPage() {
  const { scope } = useMe();
  if (scope !== 'partner') return <SettingsOverview />;
  return (
    <SettingsFrame
      title="Settings"
      description="Your company, as its people and customers see it."
      requires={PARTNER_ONLY}
    >
      <Company />
    </SettingsFrame>
  );
}

function Company() {
  const partner = useQuery(apiQuery('GET /orgs/partners/me'));
  return (
    <Loaded query={partner} what="Reading settings">
      {(data) => <CompanyForm partner={data} />}
    </Loaded>
  );
}

const CLOSED: Day = { start: '09:00', end: '17:00', closed: true };
const HOURS_TEXT: Record<(typeof HOURS)[number], string> = {
  '24/7': 'Around the clock',
  business: 'Business hours',
  extended: 'Extended hours',
  custom: 'Own hours',
};
const orNull = (value: string) => (value.trim() === '' ? null : value.trim());

function CompanyForm({ partner }: { partner: Partner }) {
  const stored = readPartnerSettings(partner.settings);
  const [name, setName] = useState(partner.name);
  const [billingEmail, setBillingEmail] = useState(partner.billingEmail ?? '');
  const [contact, setContact] = useState({
    name: stored.contact?.name ?? '',
    email: stored.contact?.email ?? '',
    phone: stored.contact?.phone ?? '',
    website: stored.contact?.website ?? '',
  });
  const [timezone, setTimezone] = useState<string | null>(stored.timezone ?? null);
  const [dateFormat, setDateFormat] = useState<string | null>(stored.dateFormat ?? null);
  const [timeFormat, setTimeFormat] = useState<string | null>(stored.timeFormat ?? null);
  const [preset, setPreset] = useState<string | null>(stored.businessHours?.preset ?? null);
  const [custom, setCustom] = useState<Record<string, Day>>(stored.businessHours?.custom ?? {});
  const refusal = useRefusal({ ...scopeOfPartner, permission: 'organizations:write' });
  const save = useApiChange('PATCH /orgs/partners/me', { refreshes: ['GET /orgs/partners/me'] });
  const hours = HOURS.find((known) => known === preset);
  const submit = () =>
    save.mutateAsync({
      body: {
        name,
        billingEmail: orNull(billingEmail),
        settings: {
          timezone,
          dateFormat: DATE_FORMATS.find((known) => known === dateFormat) ?? null,
          timeFormat: TIME_FORMATS.find((known) => known === timeFormat) ?? null,
          contact: {
            name: orNull(contact.name),
            email: orNull(contact.email),
            phone: orNull(contact.phone),
            website: orNull(contact.website),
          },
          businessHours:
            hours === undefined
              ? null
              : { preset: hours, custom: hours === 'custom' ? allDays(custom) : null },
        },
      },
    });
  return (
    <SettingsForm label="Company" submit={submit} refusal={refusal} maw={680}>
      {(faults) => (
        <>
          <Group grow align="flex-start">
            <TextInput
              label="Name"
              required
              value={name}
              onChange={(event) => setName(event.currentTarget.value)}
              error={faults['name']}
            />
            <TextInput
              label="E-mail address for invoices"
              {...EMAIL_INPUT}
              value={billingEmail}
              onChange={(event) => setBillingEmail(event.currentTarget.value)}
              error={faults['billingEmail']}
            />
          </Group>
          <Fieldset legend="Contact">
            <Group grow align="flex-start">
              {(['name', 'email'] as const).map((field) => (
                <TextInput
                  key={field}
                  label={field === 'name' ? 'Contact person' : 'E-mail address'}
                  value={contact[field]}
                  onChange={(event) => setContact({ ...contact, [field]: event.currentTarget.value })}
                  error={faults[`settings.contact.${field}`]}
                />
              ))}
            </Group>
            <Group grow align="flex-start" mt="xs">
              {(['phone', 'website'] as const).map((field) => (
                <TextInput
                  key={field}
                  label={formatWord(field)}
                  value={contact[field]}
                  onChange={(event) => setContact({ ...contact, [field]: event.currentTarget.value })}
                  error={faults[`settings.contact.${field}`]}
                />
              ))}
            </Group>
          </Fieldset>
          <Fieldset legend="Times">
            <Group grow align="flex-start">
              <Select
                label="Time zone"
                searchable
                clearable
                limit={100}
                data={TIME_ZONES}
                value={timezone}
                onChange={setTimezone}
                error={faults['settings.timezone']}
              />
              <Select
                label="Date format"
                clearable
                data={[...DATE_FORMATS]}
                value={dateFormat}
                onChange={setDateFormat}
              />
              <Select
                label="Time format"
                clearable
                data={[...TIME_FORMATS]}
                value={timeFormat}
                onChange={setTimeFormat}
              />
            </Group>
            <Select
              mt="xs"
              label="Business hours"
              clearable
              data={HOURS.map((value) => ({ value, label: HOURS_TEXT[value] }))}
              value={preset}
              onChange={setPreset}
            />
            {hours === 'custom' &&
              DAYS.map((day) => (
                <DayHours
                  key={day}
                  name={day}
                  day={custom[day] ?? CLOSED}
                  onChange={(next) => setCustom({ ...custom, [day]: next })}
                />
              ))}
          </Fieldset>
        </>
      )}
    </SettingsForm>
  );
}

const scopeOfPartner = { scopes: ['partner' as const] };
const allDays = (custom: Record<string, Day>): Record<string, Day> =>
  Object.fromEntries(DAYS.map((day) => [day, custom[day] ?? CLOSED]));

function DayHours({ name, day, onChange }: { name: string; day: Day; onChange: (day: Day) => void }) {
  const word = formatWord(name);
  const isOpen = !day.closed;
  return (
    <Group mt={6} gap="sm" role="group" aria-label={word}>
      <Text size="sm" w={90}>
        {word}
      </Text>
      <Switch
        w={90}
        label={isOpen ? 'Open' : 'Closed'}
        aria-label={`Open on ${word}`}
        checked={isOpen}
        onChange={(event) => onChange({ ...day, closed: !event.currentTarget.checked })}
      />
      {isOpen && (
        <>
          <TextInput
            type="time"
            aria-label={`${word}, from`}
            value={day.start}
            onChange={(event) => onChange({ ...day, start: event.currentTarget.value })}
          />
          <TextInput
            type="time"
            aria-label={`${word}, to`}
            value={day.end}
            onChange={(event) => onChange({ ...day, end: event.currentTarget.value })}
          />
        </>
      )}
    </Group>
  );
}

interface Place {
  to: NonNullable<LinkProps['to']>;
  label: string;
  what: string;
  requires?: Requirement;
}

/** The settings for accounts without a company of their own: system administrators, and people of a customer. */
const PLACES: readonly Place[] = [
  { to: '/providers', label: 'Providers', what: 'create and change them', requires: { scopes: ['system'] } },
  {
    to: '/organizations',
    label: 'Organizations',
    what: 'customers, their sites and limits',
    requires: { permission: 'organizations:read', scopes: ['system'] },
  },
  { to: '/people', label: 'People', what: 'invitations, roles and access', requires: 'users:read' },
  {
    to: '/agents',
    label: 'Agents',
    what: 'register, promote and roll out releases of the agent',
    requires: { scopes: ['system'] },
  },
  { to: '/enrollment', label: 'Enrollment', what: 'keys for new machines', requires: 'agents:read' },
  { to: '/settings/sso', label: 'Single sign-on', what: 'identity providers', requires: 'sso:read' },
  {
    to: '/alerts/rules',
    label: 'Alert rules',
    what: 'when an alert is raised',
    requires: 'alerts:read',
  },
  { to: '/settings/retention', label: 'Retention', what: 'how long records are kept' },
  {
    to: '/settings/webhooks',
    label: 'Webhooks',
    what: 'events for other systems',
    requires: 'webhooks:read',
  },
  { to: '/audit', label: 'Audit', what: 'who has changed what', requires: 'audit:read' },
  {
    to: '/system',
    label: 'System health',
    what: 'whether this server can do its work',
    requires: { scopes: ['system'] },
  },
  { to: '/profile', label: 'Profile', what: 'your password and two-factor authentication' },
];

function SettingsOverview() {
  const me = useMe();
  return (
    <SettingsFrame
      title="Settings"
      description={me.scope === 'system' ? 'What a system administrator can set up.' : 'What you can set up.'}
    >
      <Stack>
        <List spacing="xs" size="sm">
          {PLACES.filter(({ requires }) => refusalOf(me, requires) === undefined).map(
            ({ to, label, what }) => (
              <List.Item key={label}>
                <TextLink size="sm" to={to}>
                  {label}
                </TextLink>
                : {what}
              </List.Item>
            ),
          )}
        </List>
        {me.scope === 'system' && (
          <Text size="sm" c="dimmed">
            Company, security and branding belong to each provider, whose own people change them. Mail,
            database and addresses of the server are settings of the machine that it runs on.
          </Text>
        )}
      </Stack>
    </SettingsFrame>
  );
}
