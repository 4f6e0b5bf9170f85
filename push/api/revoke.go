package api

import (
	"context"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/revocation"
)

// Revocations takes tokens of clients back, see [revocation.Book].
type Revocations interface {
	Add(ctx context.Context, e revocation.Entry) error
	Forget(ctx context.Context, kind revocation.Kind, id string) error
}

var errNoTokens = push.ErrNotAvailable.WithMessage("the node accepts no tokens (auth.jwt)")

// revoke adds a revocation. ExpireAt is when it is forgotten.
func (a *Handler) revoke(ctx context.Context, e revocation.Entry) (any, error) {
	switch {
	case a.options.Revocations == nil:
		return nil, errNoTokens
	case e.Until != 0 && e.Until <= time.Now().Unix():
		return nil, push.ErrBadRequest.WithMessage("expire_at is in the past: use Unix seconds, or leave it out")
	}
	return struct{}{}, a.options.Revocations.Add(ctx, e)
}

type revokeTokenRequest struct {
	UID      string `json:"uid"`       // the token's jti
	ExpireAt int64  `json:"expire_at"` // when the token ends; 0: never
}

func (a *Handler) revokeToken(ctx context.Context, r *revokeTokenRequest) (any, error) {
	if r.UID == "" {
		return nil, push.ErrBadRequest.WithMessage("uid is missing")
	}
	return a.revoke(ctx, revocation.Entry{Kind: revocation.Token, ID: r.UID, Until: r.ExpireAt})
}

type invalidateUserTokensRequest struct {
	User         string `json:"user"`
	IssuedBefore int64  `json:"issued_before"` // 0: now
	ExpireAt     int64  `json:"expire_at"`     // when the last of the tokens ends; 0: never
	Channel      absent `json:"channel"`
}

func (a *Handler) invalidateUserTokens(ctx context.Context, r *invalidateUserTokensRequest) (any, error) {
	if err := refuseAbsent(map[string]absent{"channel": r.Channel}); err != nil {
		return nil, err
	}
	if r.User == "" {
		return nil, push.ErrBadRequest.WithMessage("user is missing")
	}
	if r.IssuedBefore == 0 {
		r.IssuedBefore = time.Now().Unix()
	}
	return a.revoke(ctx, revocation.Entry{Kind: revocation.Tokens, ID: r.User, Before: r.IssuedBefore, Until: r.ExpireAt})
}

type blockUserRequest struct {
	User     string `json:"user"`
	ExpireAt int64  `json:"expire_at"` // 0: until unblock_user
}

func (a *Handler) blockUser(ctx context.Context, r *blockUserRequest) (any, error) {
	if r.User == "" {
		return nil, push.ErrBadRequest.WithMessage("user is missing")
	}
	return a.revoke(ctx, revocation.Entry{Kind: revocation.User, ID: r.User, Until: r.ExpireAt})
}

type unblockUserRequest struct {
	User string `json:"user"`
}

func (a *Handler) unblockUser(ctx context.Context, r *unblockUserRequest) (any, error) {
	switch {
	case r.User == "":
		return nil, push.ErrBadRequest.WithMessage("user is missing")
	case a.options.Revocations == nil:
		return nil, errNoTokens
	}
	return struct{}{}, a.options.Revocations.Forget(ctx, revocation.User, r.User)
}
