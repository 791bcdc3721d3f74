import { useNavigate } from '@tanstack/react-router';
import { useEffect } from 'react';
import { Loading } from '../../ui/index.ts';

/** Leads on to a page of the frame, once. */
export function ToPage({ path }: { path: string }) {
  const navigate = useNavigate();
  useEffect(() => {
    void navigate({ href: path, replace: true });
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, []);
  return <Loading what="Opening Muster" />;
}
