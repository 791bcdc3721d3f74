import { Button, Stack } from '@mantine/core';
import type { SessionState } from '../../session.ts';
import { Failure, useSubmit } from '../../ui/index.ts';
import { PublicCard } from './public-card.tsx';

/** Asks the signed-in user before a link signs in another user. */
export function ReplaceSession({ session }: { session: Extract<SessionState, { state: 'replacing' }> }) {
  const { me, email, replace, stay } = session;
  const { onSubmit, isBusy, failure } = useSubmit(replace);
  return (
    <PublicCard
      title="You are already signed in"
      text={`This browser is signed in as ${me.user.email}. The link that you have opened signs in ${email} instead. If you did not ask for that, stay signed in.`}
    >
      <form onSubmit={onSubmit}>
        <Stack>
          {failure !== undefined && <Failure error={failure} />}
          <Button size="sm" onClick={stay}>
            Stay signed in as {me.user.email}
          </Button>
          <Button size="sm" type="submit" variant="default" loading={isBusy}>
            Sign in as {email}
          </Button>
        </Stack>
      </form>
    </PublicCard>
  );
}
