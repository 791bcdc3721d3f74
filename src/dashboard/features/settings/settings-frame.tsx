import { Anchor, Grid, Select, Stack } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useState, type ReactNode } from 'react';
import { useOrganizations } from '../../directory/index.ts';
import { useScope } from '../../routing/index.ts';
import { useRefusal, type Requirement } from '../../session/index.ts';
import { Empty, Forbidden, Page } from '../../ui/index.ts';

const PAGES = [
  { to: '/settings', label: 'Company' },
  { to: '/settings/security', label: 'Security' },
  { to: '/settings/sso', label: 'Single sign-on' },
  { to: '/settings/branding', label: 'Branding' },
  { to: '/settings/alerts', label: 'Alert thresholds' },
  { to: '/settings/retention', label: 'Retention' },
  { to: '/settings/custom-fields', label: 'Custom fields' },
  { to: '/settings/webhooks', label: 'Webhooks' },
] as const;

export const PARTNER_ONLY: Requirement = { scopes: ['partner'] };

/** The pages of the settings side by side. Where a page is not for this person, it says why. */
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
  const refusal = useRefusal(requires);
  return (
    <Page title={title} description={description} {...(refusal === undefined ? { actions } : {})}>
      <Grid>
        <Grid.Col span={{ base: 12, sm: 3, lg: 2 }}>
          <Stack component="nav" gap={6} aria-label="Pages of the settings">
            {PAGES.map(({ to, label }) => (
              <Anchor
                key={to}
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
