import { Anchor, List, Text } from '@mantine/core';
import { apiQuery } from '../../../api/index.ts';
import { CopyText, Panel } from '../../../ui/index.ts';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useMe } from '../../../session/index.ts';

const BUILD = 'npm run build:agent';
const ADD = 'npm run muster -- releases add dist/agent --version 0.1.0';

/** The ways to a first release. It is shown while nothing can be installed. */
export function HowToRegister() {
  const { scope } = useMe();
  const user = useQuery(apiQuery('GET /users/me'));
  if (scope !== 'system') {
    return (
      <Panel title="No agent can be installed yet" label="How to register a release">
        <Text size="sm">
          A system administrator of this server registers a release of the agent first. Until then, enrollment
          shows no install line.
        </Text>
      </Panel>
    );
  }
  return (
    <Panel title="Register the first release" label="How to register a release">
      <Text size="sm">
        The install line downloads the component Watchdog, which brings the agent with it. Each way below is
        enough:
      </Text>
      <List type="ordered" spacing="sm" size="sm">
        <List.Item>
          On the machine of the server, in the folder of Muster. It needs no sign-in:
          <CopyText label="Build and register the agent" text={`${BUILD}\n${ADD}`} />
        </List.Item>
        <List.Item>
          Upload the files that <code>{BUILD}</code> writes into <code>dist/agent</code>, with Upload.
          {user.data?.mfaEnabled === false && (
            <>
              {' '}
              It needs two-factor authentication:{' '}
              <Anchor inherit renderRoot={(props) => <Link {...props} to="/profile" />}>
                set it up in your profile
              </Anchor>
              .
            </>
          )}
        </List.Item>
        <List.Item>
          Fetch the latest release of the repository that <code>GITHUB_RELEASES_URL</code> names in the
          settings of the server.
        </List.Item>
      </List>
    </Panel>
  );
}
