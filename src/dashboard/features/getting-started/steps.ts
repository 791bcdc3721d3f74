/** The way from an empty server to the first device that is online, as a list of steps. Pure. */

/** The records that exist already. */
export interface FirstFound {
  scope: 'system' | 'partner' | 'organization';
  /** Whether only one organization, which exists, is looked at. */
  isOfOne?: boolean;
  providers: number;
  organizations: readonly { id: string; name: string }[];
  sites: readonly object[];
  /** Whether a release of the agent is promoted, which the install line needs. */
  isInstallable: boolean;
  /** Whether a key is there that a device can enroll with. */
  hasKey: boolean;
}

export interface Step {
  title: string;
  /** Its purpose, in one sentence. */
  help: string;
  /** The instruction on that page itself. */
  here: string;
  isDone: boolean;
  /** The page where it is done; absent where this person cannot do it. */
  page?: StepPage;
}

export type StepPage =
  | { to: '/providers' | '/organizations' | '/agents' | '/enrollment' }
  | { to: '/organizations/$organizationId'; params: { organizationId: string } };

/** All steps that concern this person, in their order. */
export function stepsOf(found: FirstFound): Step[] {
  const { scope, isOfOne = false, organizations, sites } = found;
  const [organization] = organizations;
  const steps: Step[] = [];
  if (scope === 'system' && !isOfOne) {
    steps.push({
      title: 'Create a provider',
      help: 'The company that looks after customers. It can be your own.',
      here: 'Press “New provider”.',
      isDone: found.providers > 0,
      page: { to: '/providers' },
    });
  }
  if (scope !== 'organization' && !isOfOne) {
    steps.push({
      title: 'Create an organization',
      help: 'A customer, with devices and people of its own.',
      here: 'Press “New organization”.',
      isDone: organizations.length > 0,
      page: { to: '/organizations' },
    });
  }
  steps.push(
    {
      title:
        organization === undefined || sites.length > 0
          ? 'Create a site'
          : `Create a site of ${organization.name}`,
      help: 'A place with devices. Its time zone decides when schedules and maintenance windows begin.',
      here: 'Press “New site”.',
      isDone: sites.length > 0,
      ...(organization === undefined
        ? {}
        : { page: { to: '/organizations/$organizationId', params: { organizationId: organization.id } } }),
    },
    {
      title: 'Register a release of the agent',
      help:
        scope === 'system'
          ? 'The program that the install line downloads. It is uploaded once, or fetched from GitHub.'
          : 'A system administrator of this server does it, once for all providers.',
      here: 'Take one of the ways below.',
      isDone: found.isInstallable,
      ...(scope === 'system' ? { page: { to: '/agents' } } : {}),
    },
    {
      title: 'Create an enrollment key',
      help: 'It lets machines join one organization.',
      here: 'Press “New key”.',
      isDone: found.hasKey,
      page: { to: '/enrollment' },
    },
    {
      title: 'Run the install line on a machine',
      help: 'Enrollment shows the line with each new key. The machine appears as soon as its agent is connected.',
      here: 'It is below while a new key is shown. If you have lost the line, replace the key: a new line appears.',
      isDone: false,
      page: { to: '/enrollment' },
    },
  );
  return steps;
}

/** The first that is not done. */
export const nextOf = (steps: readonly Step[]): Step | undefined => steps.find(({ isDone }) => !isDone);

/** The address of the page where a step is done. */
export const pathOf = (page: StepPage): string =>
  page.to === '/organizations/$organizationId' ? `/organizations/${page.params.organizationId}` : page.to;
