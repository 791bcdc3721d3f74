import { Button, Center } from '@mantine/core';
import { Outlet, useLocation, useMatches, useNavigate } from '@tanstack/react-router';
import { useEffect } from 'react';
import { useHubSoon } from '../live/index.ts';
import { openSession, refusalOf, useSession, type Me } from '../session/index.ts';
import { Empty, Forbidden, Loading, Page } from '../ui/index.ts';
import { Frame } from './frame/frame.tsx';

/** The frame for who is signed in; the sign-in page for who is not, which leads back here afterwards. */
export function SignedIn() {
  const session = useSession();
  useHubSoon();
  if (session.state === 'opening') return <Loading what="Opening Muster" />;
  if (session.state === 'unreachable') return <Unreachable />;
  if (session.state === 'signed_out') {
    return <ToLogin ended={session.ended} />;
  }
  return (
    <Frame>
      <Permitted me={session.me} />
    </Frame>
  );
}

const TRY_AGAIN_MS = 5_000;

function Unreachable() {
  useEffect(() => {
    const timer = setInterval(() => void openSession(), TRY_AGAIN_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <Center mih="100dvh">
      <Empty
        title="The server cannot be reached"
        action={<Button onClick={() => void openSession()}>Try again</Button>}
      >
        Check the network of this computer, and whether Muster is running. The page tries again by itself.
      </Empty>
    </Center>
  );
}

/** Leads to the sign-in page, once. */
function ToLogin({ ended }: { ended: boolean }) {
  const { href } = useLocation();
  const navigate = useNavigate();
  useEffect(() => {
    const search = { ...(href === '/' ? {} : { redirect: href }), ...(ended ? { ended } : {}) };
    void navigate({ to: '/login', search, replace: true });
    // The address changes on the way there.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, []);
  return <Loading what="Opening the sign-in" />;
}

/** The page, or why this person may not see it. */
function Permitted({ me }: { me: Me }) {
  const { permission, title = 'Muster' } = useMatches().at(-1)?.staticData ?? {};
  const refusal = refusalOf(me, permission);
  if (refusal === undefined) return <Outlet />;
  return (
    <Page title={title}>
      <Forbidden reason={refusal} isGrantable={typeof permission === 'string'} />
    </Page>
  );
}
