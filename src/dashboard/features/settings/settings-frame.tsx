import { Anchor, Grid, Select, Stack } from '@mantine/core';
import { Link, type LinkProps } from '@tanstack/react-router';
import { useState, type ReactNode } from 'react';
import { useOrganizations } from '../../directory/index.ts';
import { useScope } from '../../routing/index.ts';
import { refusalOf, useMe, type Requirement } from '../../session/index.ts';
import { Empty, Forbidden, Page } from '../../ui/index.ts';

export const PARTNER_ONLY: Requirement = { scopes: ['partner'] };

/** Of an account that has no company, the first page says what it can set up. */
const PAGES: readonly { to: NonNullable<LinkProps['to']>; label: string; requires?: Requirement }[] = [
  { to: '/settings', label: 'Company', requires: PARTNER_ONLY },
  { to: '/settings', label: 'Overview', requires: { scopes: ['system', 'organization'] } },
  { to: '/settings/security', label: 'Security', requires: PARTNER_ONLY },
  { to: '/settings/sso', label: 'Single sign-on', requires: 'sso:read' },
  { to: '/settings/branding', label: 'Branding', requires: PARTNER_ONLY },
  { to: '/settings/alerts', label: 'Alert thresholds', requires: 'alerts:read' },
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
    <Page title={title} description={description} {...(refusal === undefined ? { actions } : {})}>
      <Grid>
        <Grid.Col span={{ base: 12, sm: 3, lg: 2 }}>
          <Stack component="nav" gap={6} aria-label="Pages of the settings">
            {PAGES.filter((page) => refusalOf(me, page.requires) === undefined).map(({ to, label }) => (
              <Anchor
                key={label}
                size="sm"
                renderRoot={(props) => (
                  <Link
                    {...props}
                    to={to}
                    activeOptions={{ exact: to === '/settings' }}
                    activeProps={{ style: { fontWeight: 700 } }}
                  />
                )}
              >
                {label}
              </Anchor>
            ))}
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, sm: 9, lg: 10 }}>
          {refusal === undefined ? (
            children
          ) : (
            <Forbidden reason={refusal} isGrantable={typeof requires === 'string'} />
          )}
        </Grid.Col>
      </Grid>
    </Page>
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
