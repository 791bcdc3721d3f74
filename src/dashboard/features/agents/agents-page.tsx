import { Tabs } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import { useRefusal } from '../../session.ts';
import { Page } from '../../ui/index.ts';
import { PolicyTab } from './policy-tab.tsx';
import { ReleasesTab } from './releases-tab.tsx';
import { RolloutsTab } from './rollouts-tab.tsx';

const route = getRouteApi('/signed-in/agents');
const TABS = ['releases', 'rollouts', 'policy'] as const;
const LABELS = { releases: 'Releases', rollouts: 'Rollouts', policy: 'Policy of an organization' };

/** Which versions of the agent devices run, and how new ones come to them. */
export function AgentsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { tab = 'releases', page = 1 } = search;
  const mayRollOut = useRefusal({ scopes: ['system'] }) === undefined;
  // A link to what this person may not see still says why.
  const tabs = TABS.filter((each) => each !== 'rollouts' || mayRollOut || tab === 'rollouts');
  const change = (next: Partial<typeof search>) =>
    void navigate({ search: (previous) => ({ ...previous, page: undefined, ...next }), replace: true });
  return (
    <Page
      title="Agents"
      description="Devices upgrade to the promoted release of their platform, unless a pin, a policy or a window says otherwise. The page of each device says why it does not."
    >
      <Tabs
        value={tab}
        keepMounted={false}
        onChange={(value) =>
          change({ tab: TABS.find((each) => each === value), rollout: undefined, component: undefined })
        }
      >
        <Tabs.List aria-label="About agents">
          {tabs.map((each) => (
            <Tabs.Tab key={each} value={each}>
              {LABELS[each]}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value="releases" pt="sm">
          <ReleasesTab
            component={search.component}
            onComponent={(component) => change({ component })}
            page={page}
            onPage={(next) => change({ page: next })}
          />
        </Tabs.Panel>
        <Tabs.Panel value="rollouts" pt="sm">
          <RolloutsTab
            page={page}
            onPage={(next) => change({ page: next })}
            opened={search.rollout}
            onOpen={(rollout) => change({ rollout, page: search.page })}
          />
        </Tabs.Panel>
        <Tabs.Panel value="policy" pt="sm">
          <PolicyTab />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}
