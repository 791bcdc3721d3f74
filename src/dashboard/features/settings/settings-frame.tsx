import { Select, Stack, Button } from '@mantine/core';
import { useState, type ReactNode, type SyntheticEvent } from 'react';
import { useOrganizations } from '../../directory.ts';
import { useScope } from '../../routing.ts';
import { refusalOf, useMe, type Requirement } from '../../session.ts';
import { Empty, Forbidden, Action, asError, Failure, AreaPage, type Place, Notice } from '../../ui/index.ts';
import { ApiError } from '../../api/index.ts';
import { z } from 'zod';

export const PARTNER_ONLY: Requirement = { scopes: ['partner'] };

/** For an account that has no company, the first page says what it can set up. */
const PAGES: readonly (Place & { requires?: Requirement })[] = [
  { to: '/settings', label: 'Company', requires: PARTNER_ONLY },
  { to: '/settings', label: 'Overview', requires: { scopes: ['system', 'organization'] } },
  { to: '/settings/security', label: 'Security', requires: PARTNER_ONLY },
  { to: '/settings/sso', label: 'Single sign-on', requires: 'sso:read' },
  { to: '/settings/branding', label: 'Branding', requires: PARTNER_ONLY },
  { to: '/alerts/rules', label: 'Alert rules', requires: 'alerts:read' },
  { to: '/settings/retention', label: 'Retention' },
  { to: '/settings/custom-fields', label: 'Custom fields', requires: 'devices:read' },
  { to: '/settings/webhooks', label: 'Webhooks', requires: 'webhooks:read' },
];

/** The pages of the settings that are for this person side by side. A link to another one says why it is not. */
export function SettingsFrame({
  title,
  description,
  actions,
  requires,
  children,
}: {
  title: string;
  description?: ReactNode;
  actions?: ReactNode;
  requires?: Requirement;
  children: ReactNode;
}) {
  const me = useMe();
  const refusal = refusalOf(me, requires);
  return (
    <AreaPage
      title={title}
      description={description}
      label="Pages of the settings"
      places={PAGES.filter((page) => refusalOf(me, page.requires) === undefined)}
      {...(refusal === undefined ? { actions } : {})}
    >
      {refusal === undefined ? (
        children
      ) : (
        <Forbidden reason={refusal} isGrantable={typeof requires === 'string'} />
      )}
    </AreaPage>
  );
}

/** Settings of one organization: that of the header, or one that is chosen here. */
export function OfOrganization({ children }: { children: (orgId: string) => ReactNode }) {
  const { orgId } = useScope();
  const organizations = useOrganizations();
  const [chosen, setChosen] = useState<string | null>(null);
  const shown = orgId ?? chosen ?? organizations[0]?.id;
  if (shown === undefined) {
    return (
      <Empty title="No organization yet">These settings belong to an organization. Make one first.</Empty>
    );
  }
  return (
    <Stack>
      {orgId === undefined && organizations.length > 1 && (
        <Select
          label="Organization"
          maw={460}
          searchable
          allowDeselect={false}
          data={organizations.map(({ id, name }) => ({ value: id, label: name }))}
          value={shown}
          onChange={setChosen}
        />
      )}
      {children(shown)}
    </Stack>
  );
}

/**
 * A form on a page. Says whether it is saved, shows the rule that a field breaks at the field, and says why if the
 * person may not save.
 */
export function SettingsForm({
  label,
  submit,
  submitLabel = 'Save',
  refusal,
  failure: shownFailure,
  maw = 520,
  children,
}: {
  /** The accessible name of the form. */
  label: string;
  submit: () => Promise<unknown>;
  submitLabel?: string;
  refusal: string | undefined;
  /** Replaces the message of a failure that the page can explain better. */
  failure?: (error: Error) => ReactNode;
  maw?: number;
  children: (faults: Record<string, string>) => ReactNode;
}) {
  const [isBusy, setBusy] = useState(false);
  const [isSaved, setSaved] = useState(false);
  const [error, setError] = useState<Error>();
  const send = async () => {
    setBusy(true);
    setSaved(false);
    setError(undefined);
    try {
      await submit();
      setSaved(true);
    } catch (thrown) {
      setError(asError(thrown));
    } finally {
      setBusy(false);
    }
  };
  const onSubmit = (event: SyntheticEvent) => {
    event.preventDefault();
    if (refusal === undefined && !isBusy) void send();
  };
  return (
    <form onSubmit={onSubmit} aria-label={label}>
      <Stack gap="sm" maw={maw}>
        {children(error instanceof ApiError ? error.fields : {})}
        {error !== undefined && (shownFailure?.(error) ?? <Failure error={error} />)}
        {isSaved && (
          <Notice tone="good" role="status">
            Saved.
          </Notice>
        )}
        {refusal === undefined ? (
          <Button type="submit" loading={isBusy} style={{ alignSelf: 'flex-start' }}>
            {submitLabel}
          </Button>
        ) : (
          <Action refusal={refusal} style={{ alignSelf: 'flex-start' }} onClick={() => undefined}>
            {submitLabel}
          </Action>
        )}
      </Stack>
    </form>
  );
}

/** The settings of a provider as the forms need them. The API types them as any JSON, and stored ones may be of an earlier form. */
const text = z.string().nullish().catch(undefined);

export const DAYS = ['monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday'] as const;
export const DATE_FORMATS = ['YYYY-MM-DD', 'DD/MM/YYYY', 'MM/DD/YYYY'] as const;
export const TIME_FORMATS = ['24h', '12h'] as const;
export const HOURS = ['24/7', 'business', 'extended', 'custom'] as const;

const Day = z.object({ start: z.string(), end: z.string(), closed: z.boolean().default(false) });
export type Day = z.output<typeof Day>;

const Settings = z.object({
  timezone: text,
  dateFormat: z.enum(DATE_FORMATS).nullish().catch(undefined),
  timeFormat: z.enum(TIME_FORMATS).nullish().catch(undefined),
  businessHours: z
    .object({
      preset: z.enum(HOURS).optional().catch(undefined),
      custom: z.record(z.string(), Day).nullish().catch(undefined),
    })
    .nullish()
    .catch(undefined),
  contact: z.object({ name: text, email: text, phone: text, website: text }).nullish().catch(undefined),
  security: z
    .object({ ipAllowlist: z.array(z.string()).optional().catch(undefined) })
    .optional()
    .catch(undefined),
});

export const readPartnerSettings = (stored: unknown): z.output<typeof Settings> =>
  Settings.catch({}).parse(stored);
